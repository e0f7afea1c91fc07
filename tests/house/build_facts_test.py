"""`terrace --version` says what the program was built of and with. Its commit is looked up at each build."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else ROOT / "build/release"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **options).stdout


class BuildFacts(unittest.TestCase):
    def test_the_program_says_compiler_torch_mpi_cuda_and_hip(self):
        said = dict(line.split(": ", 1) for line in run(BUILD / "terrace", "--version").splitlines()[1:])
        self.assertRegex(said["commit"], r"^([0-9a-f]{40}( with changes)?|unknown)$")
        cache = (BUILD / "CMakeCache.txt").read_text()
        compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M)[1]
        self.assertIn(run(compiler, "-dumpfullversion").strip(), said["compiler"])
        torch = pathlib.Path(re.search(r"^TERRACE_TORCH_ROOT:\w+=(.*)$", cache, re.M)[1])
        self.assertIn(f"'{said['torch']}'", (torch / "version.py").read_text())
        with_mpi = "libmpi" in run("ldd", BUILD / "terrace")
        self.assertEqual(said["MPI"] != "none", with_mpi)
        self.assertEqual(said["CUDA"] != "none", "TERRACE_CUDA:BOOL=ON" in cache)
        self.assertEqual(said["HIP"] != "none", "TERRACE_HIP:BOOL=ON" in cache)
        self.assertEqual(said["libraries"], "of the system")

    def test_the_commit_is_that_of_the_sources_when_they_are_built(self):
        with tempfile.TemporaryDirectory() as name:
            tree, output = pathlib.Path(name), pathlib.Path(name) / "commit.cpp"

            def commit():
                run("cmake", "-D", f"SOURCE={tree}", "-D", f"OUTPUT={output}", "-P", ROOT / "cmake/build_facts.cmake")
                return re.search(r'return "(.*)";', output.read_text())[1]

            def git(*arguments):
                return run("git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", *arguments).strip()

            self.assertEqual(commit(), "unknown")
            git("init", "-q")
            (tree / "file").write_text("1\n")
            git("add", "file")
            git("commit", "-q", "-m", "first")
            self.assertEqual(commit(), git("rev-parse", "HEAD"))
            written = output.stat().st_mtime_ns
            commit()
            self.assertEqual(output.stat().st_mtime_ns, written)  # so nothing is compiled again
            (tree / "file").write_text("2\n")
            self.assertEqual(commit(), git("rev-parse", "HEAD") + " with changes")
            git("commit", "-q", "-a", "-m", "second")
            self.assertEqual(commit(), git("rev-parse", "HEAD"))
            (tree / "commit.txt").write_text(40 * "a" + "\n")
            self.assertEqual(commit(), 40 * "a")


if __name__ == "__main__":
    unittest.main()
