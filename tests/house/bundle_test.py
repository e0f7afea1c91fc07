"""tools/bundle makes one small archive whose bytes depend on the commit and the pinned packages alone, and tools/setup --from refuses
what would fail later, with the way out. The build itself is tested by install_in_root.py. Exits with 77 where the packages cannot be
fetched."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from bundle_files import MOST_BYTES, changed_files, read_packages, sha256  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "build/bundle_test/terrace.tar.gz"


def run(*command, **environment):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT, env=os.environ | environment)


class Archive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        with tarfile.open(ARCHIVE) as archive:
            cls.names = archive.getnames()
            archive.extractall(cls.scratch.name, filter="data")
        (cls.folder,) = pathlib.Path(cls.scratch.name).iterdir()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_has_the_commit_and_every_library_with_its_licence(self):
        head = run("git", "rev-parse", "HEAD").stdout
        self.assertEqual((self.folder / "commit.txt").read_text(), head)
        self.assertTrue((self.folder / "tools/setup").stat().st_mode & 0o100)
        names = {package.name.removeprefix("src:") for package in read_packages(ROOT / "tools/bundle_packages.txt")}
        self.assertEqual({path.name for path in (self.folder / "libraries").iterdir()}, names)
        for name in names:
            licences = [path for path in (self.folder / "libraries" / name).rglob("*")
                        if path.name.lower().startswith(("licen", "copying", "copyright"))]  # fmt: skip
            self.assertTrue(licences, name)

    def test_is_small_whole_and_without_links(self):
        self.assertLess(ARCHIVE.stat().st_size, MOST_BYTES)
        self.assertEqual(list(changed_files(self.folder)), [])
        listed = {line.split("  ", 1)[1] for line in (self.folder / "hashes.txt").read_text().splitlines()}
        there = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if not path.is_dir() or path.is_symlink()}
        self.assertEqual(there - listed, {"hashes.txt"})
        self.assertEqual([path for path in self.folder.rglob("*") if path.is_symlink()], [])

    def test_the_same_commit_gives_the_same_bytes(self):
        again = pathlib.Path(self.scratch.name).parent / f"again-{os.getpid()}.tar.gz"
        self.addCleanup(again.unlink)
        made = run(ROOT / "tools/bundle", "--output", again)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(sha256(again), sha256(ARCHIVE))
        self.assertIn(sha256(again), made.stdout)

    def test_a_source_with_another_hash_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            tree = pathlib.Path(name)
            (tree / "tools").mkdir()
            for file in ("tools/bundle", "tools/bundle_files.py", "CMakeLists.txt"):
                shutil.copy(ROOT / file, tree / file)
            version = next(p.version for p in read_packages(ROOT / "tools/bundle_packages.txt") if p.name == "src:xxhash")
            (tree / "tools/bundle_packages.txt").write_text(f"src:xxhash {version} {64 * '0'}\n")
            result = run(tree / "tools/bundle")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("and not the pinned 000", result.stderr)
            self.assertEqual(list((tree / "build").glob("*.tar.gz")), [])


class Setup(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.prefix, self.build, self.torch = (self.folder / name for name in ("prefix", "build", "torch"))
        for name in ("lib/libtorch_cpu.so", "include/ATen/core/Tensor.h"):
            (self.torch / name).parent.mkdir(parents=True)
            (self.torch / name).touch()

    def refused(self, archive, *options, **environment):
        """What tools/setup says when it refuses; it leaves nothing behind."""
        options = options or ("--torch", self.torch)
        result = run(ROOT / "tools/setup", "--from", archive, "--prefix", self.prefix, "--build", self.build, "--without-mpi", *options, **environment)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertFalse(self.build.exists())
        return result.stderr

    def test_a_damaged_archive_is_refused(self):
        whole = ARCHIVE.read_bytes()
        for name, content in [("cut.tar.gz", whole[: len(whole) // 2]), ("empty.tar.gz", b"")]:
            (self.folder / name).write_bytes(content)
            self.assertIn(f"{name} is damaged: ", self.refused(self.folder / name))
        self.assertFalse(self.prefix.exists())

    def test_an_archive_with_a_changed_file_is_refused_by_its_name(self):
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(self.folder / "changed", filter="data")
        (folder,) = (self.folder / "changed").iterdir()
        with (folder / "libraries/zlib/inflate.c").open("a") as file:
            file.write("\n")
        with tarfile.open(self.folder / "changed.tar.gz", "w:gz") as archive:
            archive.add(folder, folder.name)
        for archive in (self.folder / "changed.tar.gz", folder):
            said = self.refused(archive)
            self.assertIn("libraries/zlib/inflate.c", said)
            self.assertIn("differ from hashes.txt; copy it again", said)

    def test_everything_that_is_missing_is_said_at_once_with_the_way_out(self):
        for name, version in (("old", "__clang_major__ 11"), ("older", "15 4")):
            (self.folder / name).write_text(f"#!/bin/sh\necho {version}\n")
            (self.folder / name).chmod(0o755)
        said = self.refused("nowhere.tar.gz", "--torch", self.folder, CXX=str(self.folder / "old"))
        self.assertIn("nowhere.tar.gz does not exist; tools/bundle makes it", said)
        self.assertIn("old is GCC 11, which is too old; load a module with GCC 12 or later or Clang 16 or later", said)
        self.assertIn(f"{self.folder} has no lib/libtorch_cpu.so", said)
        self.assertIn("import torch; print(torch.__path__[0])", said)
        (self.folder / "broken").write_text("#!/bin/sh\nexit 1\n")
        (self.folder / "broken").chmod(0o755)
        self.assertIn("broken is neither GCC nor Clang, or does not work", self.refused(ARCHIVE, CXX=str(self.folder / "broken")))
        said = self.refused(ARCHIVE, "--link-torch", CXX=str(self.folder / "older"))
        self.assertIn("older is Clang 15, which is too old", said)
        self.assertIn("--torch names the folder 'torch' of a torch 2.11", said)

    def test_without_rocm_and_torch_for_it_it_says_so_and_the_way_out(self):
        said = self.refused(ARCHIVE, "--torch", self.torch, "--hip", "--cuda", ROCM_PATH=str(self.folder))
        self.assertIn(f"{self.folder} has no include/rccl/rccl.h; load its module, which sets ROCM_PATH", said)
        self.assertIn(f"{self.torch} has no lib/libtorch_hip.so; install torch 2.11 from PyTorch's index of wheels for ROCm", said)
        self.assertIn("--cuda and --hip exclude each other", said)

    def test_without_mpi_it_says_so_and_the_way_out(self):
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("bash", "dirname", "awk", "df", "tail", "tr", "mkdir", "sort", "head", "nproc", "ls", "cmake", "c++", "cc", "make"):
            (programs / name).symlink_to(shutil.which(name))
        result = run(ROOT / "tools/setup", "--from", ARCHIVE, "--torch", self.torch, "--prefix", self.prefix, PATH=str(programs))
        self.assertEqual(result.returncode, 1)
        self.assertIn("there is no MPI: mpicc is not in PATH; load its module, or say --without-mpi", result.stderr)

    def test_the_recipe_of_a_container_gives_options_that_there_are(self):
        usage = run(ROOT / "tools/setup", "--help").stdout
        recipe = (ROOT / "packaging/terrace.def").read_text()
        options = re.findall(r"--[a-z-]+", re.search(r"tools/setup (.*)", recipe)[1])
        self.assertEqual(options, ["--from", "--torch", "--prefix", "--build"])
        for option in options:
            self.assertIn(f"  {option} ", usage)
        self.assertIn(re.search(r"torch==([\d.]+)", recipe)[1], (ROOT / "tools/setup").read_text())

    def test_the_recipe_of_spack_is_of_this_version_and_gives_options_that_there_are(self):
        usage = run(ROOT / "tools/setup", "--help").stdout
        recipe = (ROOT / "packaging/spack/packages/terrace/package.py").read_text()
        compile(recipe, "package.py", "exec")
        self.assertIn(f'version("{re.search(r"terrace VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]}"', recipe)
        options = set(re.findall(r'"(--[a-z-]+)"', recipe))
        self.assertEqual(options, {"--from", "--torch", "--link-torch", "--prefix", "--build", "--jobs", "--without-mpi", "--cuda"})
        for option in options:
            self.assertIn(f"  {option} ", usage)

    def test_a_prefix_that_holds_something_else_is_left_unchanged(self):
        self.prefix.mkdir()
        (self.prefix / "thesis.tex").touch()
        self.assertIn("exists and holds no terrace; give a new or an empty folder", self.refused(ARCHIVE))
        self.assertEqual([path.name for path in self.prefix.iterdir()], ["thesis.tex"])

    def test_options_of_an_archive_are_refused_without_one(self):
        result = run(ROOT / "tools/setup", "--torch", self.torch)
        self.assertEqual(result.returncode, 1)
        self.assertIn("--torch has a meaning with --from ARCHIVE alone", result.stderr)


if __name__ == "__main__":
    made = run(ROOT / "tools/bundle", "--output", ARCHIVE)
    if made.returncode != 0 and ("could not be had" in made.stderr or "apt-get" in made.stderr):
        print(made.stderr)
        sys.exit(77)
    print(made.stdout, made.stderr)
    sys.exit(made.returncode or unittest.main())
