"""tools/setup says what is wrong and what to do, begins again after an interruption, and is quick when nothing is missing."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ("bash", "cat", "comm", "dirname", "env", "flock", "grep", "mkdir", "sed", "sort", "tr")


def setup(*arguments, **environment):
    return subprocess.run([SOURCE / "tools/setup", *arguments], capture_output=True, text=True, timeout=300,
                          env=os.environ | environment)


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.prefix = self.folder / "environment/python"

    def path_with(self, **programs):
        """A PATH with only the basic programs and these shell scripts, so that neither root nor sudo need be there."""
        path = self.folder / "bin"
        path.mkdir()
        for name in NEEDED:
            (path / name).symlink_to(shutil.which(name))
        for name, script in programs.items():
            (path / name.replace("_", "-")).write_text(f"#!{shutil.which('bash')}\n{script}\n")
            (path / name.replace("_", "-")).chmod(0o755)
        return str(path)

    def debian(self):
        file = self.folder / "os-release"
        file.write_text('ID=debian\nVERSION_ID="12"\n')
        return str(file)

    def test_without_root_and_sudo_it_names_the_command_that_an_administrator_runs(self):
        path = self.path_with(id="echo 1000", dpkg_query="echo 'installed cmake'")
        result = setup("--prefix", self.prefix, PATH=path, TERRACE_OS_RELEASE=self.debian())
        self.assertEqual(result.returncode, 1)
        self.assertIn("neither root nor is there sudo", result.stderr)
        self.assertRegex(result.stderr, r"apt-get install build-essential .*ninja-build")
        self.assertNotIn(" cmake ", result.stderr)

    def test_on_another_system_it_names_the_packages_and_the_way_on(self):
        other = self.folder / "os-release"
        other.write_text("ID=arch\n")
        result = setup("--prefix", self.prefix, TERRACE_OS_RELEASE=str(other))
        self.assertEqual(result.returncode, 1)
        self.assertIn("not Debian 12", result.stderr)
        self.assertIn("ninja-build", result.stderr)
        self.assertIn("--skip-packages", result.stderr)

    def test_an_interrupted_run_begins_again_and_a_failing_step_says_what_to_do(self):
        self.prefix.mkdir(parents=True)
        (self.prefix / ".installing").touch()
        (self.prefix / "half_a_package").touch()
        result = setup("--skip-packages", "--prefix", self.prefix, PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CONFIG_FILE="/dev/null")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("interrupted", result.stdout)
        self.assertFalse((self.prefix / "half_a_package").exists())
        self.assertRegex(result.stdout, r"torch 2\.11\.0 .* failed\. What to do: check the network")
        # pip had not begun to write, so the next run may continue from here.
        self.assertFalse((self.prefix / ".installing").exists())

    def test_a_folder_that_is_not_its_own_is_left_unchanged(self):
        self.prefix.mkdir(parents=True)
        (self.prefix / "thesis.tex").touch()
        result = setup("--skip-packages", "--prefix", self.prefix)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is not a Python environment", result.stderr)
        self.assertEqual([p.name for p in self.prefix.iterdir()], ["thesis.tex"])

    def test_an_unknown_argument_is_refused_with_the_known_ones(self):
        result = setup("--tests")
        self.assertEqual(result.returncode, 1)
        self.assertIn("'--tests'", result.stderr)
        self.assertIn("--test ", result.stderr)

    def test_where_nothing_is_missing_it_installs_nothing(self):
        began = time.monotonic()
        result = setup("--test", "--skip-packages")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("installed", result.stdout)
        self.assertNotIn("done in", result.stdout)
        self.assertLess(time.monotonic() - began, 10)  # measured: 0.1 s; a pip run takes 1 s at least, the wheel 15


if __name__ == "__main__":
    unittest.main()
