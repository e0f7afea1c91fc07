"""tools/gpu_bundle makes a whole folder, and it and tools/gpu_check refuse what would fail later. Exits with 77 where the
packages cannot be fetched."""
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
from bundle_files import changed_files  # noqa: E402
from gpu_bundle_files import LIBRARIES, PROGRAMS, packages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "build/gpu_bundle"
# Libraries of the system on every machine that has a C++ compiler.
OF_THE_SYSTEM = re.compile(r"^(lib(c|m|dl|rt|util|pthread|stdc\+\+|gcc_s|gomp)\.so|ld-linux|linux-vdso)")
# Plugins of Open MPI for networks and schedulers; it leaves out those whose libraries are missing.
OPTIONAL = re.compile(r"/openmpi3/mca_|/pmix2?/|/(libompitrace|libmca_common_(ucx|ofi|verbs)|liboshmem)|/lib/libmpi_java|/usr/bin/")


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)


class Bundle(unittest.TestCase):
    def test_every_library_finds_what_it_needs(self):
        names = {path.name for path in BUNDLE.rglob("*.so*")}
        for path in BUNDLE.rglob("*.so*"):
            if path.is_symlink() or OPTIONAL.search(str(path)):
                continue
            needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", path).stdout)
            missing = [name for name in needed if name not in names and not OF_THE_SYSTEM.match(name)]
            self.assertEqual(missing, [], path)

    def test_every_package_comes_with_its_licence_and_no_link_leads_out(self):
        for package in packages():
            self.assertTrue((BUNDLE / "usr/share/doc" / package.name / "copyright").exists(), package)
        for path in BUNDLE.rglob("*"):
            if path.is_symlink():
                self.assertTrue(path.resolve().is_relative_to(BUNDLE.resolve()) and path.exists(), path)

    def test_is_small(self):
        self.assertLess(sum(p.stat().st_size for p in BUNDLE.rglob("*") if p.is_file() and not p.is_symlink()), 60 * 2**20)

    def test_a_package_with_another_hash_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            tree = pathlib.Path(name)
            (tree / "tools").mkdir()
            for file in ("gpu_bundle", "gpu_bundle_files.py", "bundle_files.py"):
                shutil.copy(ROOT / "tools" / file, tree / "tools")
            version = next(package.version for package in packages() if package.name == "libfmt9")
            (tree / "tools/gpu_packages.txt").write_text(f"libfmt9 {version} {64 * '0'}\n")
            result = run(tree / "tools/gpu_bundle")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("and not the pinned 000", result.stderr)
            self.assertFalse((tree / "build/gpu_bundle").exists())

    def test_programs_are_packed_with_the_libraries_that_they_load_and_without_what_only_a_build_reads(self):
        with tempfile.TemporaryDirectory() as name:
            build, packed = pathlib.Path(name) / "build", pathlib.Path(name) / "programs.tar.xz"
            refused = run(ROOT / "tools/gpu_bundle", "--programs", build, "--output", packed)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("has no terrace, test_ops", refused.stderr)
            for program in PROGRAMS:
                (build / program).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(shutil.which("ninja"), build / program)
            made = run(ROOT / "tools/gpu_bundle", "--programs", build, "--output", packed)
            self.assertEqual(made.returncode, 0, made.stderr)
            with tarfile.open(packed, "r:xz") as archive:
                archive.extractall(f"{name}/there", filter="data")
            there = pathlib.Path(name) / "there"
            for program in PROGRAMS:
                self.assertTrue(run(there / "programs" / program, "--version").stdout)
            self.assertTrue((there / LIBRARIES / "libmpi.so.40").exists())
            self.assertFalse((there / "usr/include").exists())
            self.assertEqual(list(changed_files(there)), [])
            self.assertLess(packed.stat().st_size, 60 * 2**20)

    def test_a_changed_bundle_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            changed = pathlib.Path(name) / "bundle"
            shutil.copytree(BUNDLE, changed, symlinks=True)
            (changed / "usr/include/xxhash.h").write_text("#error changed\n")
            result = run(ROOT / "tools/gpu_check", "--bundle", changed, "--python", ROOT / ".deps/python/bin/python", "--nvcc", "/bin/true",
                         "--architectures", "90", "--results", f"{name}/results")  # fmt: skip
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("usr/include/xxhash.h is not as tools/gpu_bundle made it", result.stderr)

    def test_everything_that_is_missing_is_named_at_once(self):
        with tempfile.TemporaryDirectory() as name:
            result = run(ROOT / "tools/gpu_check", "--bundle", f"{name}/none", "--python", "/bin/false", "--nvcc", "/none", "--results",
                         f"{name}/results")  # fmt: skip
            self.assertNotEqual(result.returncode, 0)
            for problem in ("is no bundle", "has torch ''", "--architectures"):
                self.assertIn(problem, result.stderr)


if __name__ == "__main__":
    made = run(ROOT / "tools/gpu_bundle")
    if made.returncode != 0 and "could not be had" in made.stderr:
        print(made.stderr)
        sys.exit(77)
    print(made.stdout, made.stderr)
    sys.exit(made.returncode or unittest.main())
