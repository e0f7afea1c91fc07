"""Runs tools/gpu_check's build as on a machine without a network: from the bundle, in a copy of this system from which the
packages of the bundle are gone, as a user who is not root.

    in_chroot.py [options of tools/gpu_check]

Needs root (for the copy, an overlay that is thrown away), the CUDA toolkit and the wheel of tools/setup --test --cuda; exits
with 77 where one is missing. Takes a quarter of an hour on two cores.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from gpu_bundle_files import LIBRARIES, packages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = 65534
# Libraries that the compiler, CMake and Python themselves load.
NEEDED_BY_TOOLS = {"zlib1g", "libzstd1", "libpcre2-8-0", "libudev1", "libxxhash0"}


def missing():
    if os.geteuid() != 0:
        return "this is not root"
    if not shutil.which("nvcc") and not pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
        return "there is no CUDA toolkit"
    if not (ROOT / ".deps/python/lib/python3.11/site-packages/nvidia/nccl").exists():
        return "tools/setup --test --cuda has not installed the full wheel"
    return None


def remove_packages(root):
    """Removes the files of the bundle's packages from the copy."""
    removed = ({package.name for package in packages()} - NEEDED_BY_TOOLS) | {"ccache", "pkgconf", "pkg-config"}
    for name in sorted(removed):
        listed = subprocess.run(["dpkg", "-L", name], capture_output=True, text=True).stdout.splitlines()
        for file in listed:
            path = root / file.lstrip("/")
            if path.is_symlink() or path.is_file():
                path.unlink()


def inside(scratch, options):
    """Called in namespaces of its own: mounts the copy, makes it bare, and builds in it."""
    root = scratch / "root"
    layers = f"lowerdir=/,upperdir={scratch / 'upper'},workdir={scratch / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, root], check=True)
    for folder in ("proc", "dev"):
        subprocess.run(["mount", "--rbind", f"/{folder}", root / folder], check=True)
    remove_packages(root)
    home = root / "builder"
    home.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, home / "terrace"], check=True)
    shutil.copytree(ROOT / "build/gpu_bundle", home / "terrace/build/gpu_bundle", symlinks=True)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", home], check=True)
    for path in ("usr/include/fmt/core.h", "usr/bin/orterun", "usr/include/gtest/gtest.h"):
        assert not (root / path).exists(), path
    command = ["chroot", root, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "-i",
               "HOME=/builder", "PATH=/usr/bin:/bin:/usr/local/cuda/bin", "/bin/sh", "-c",
               'cd /builder/terrace && exec python3 tools/gpu_check "$@"', "sh", "--parts", "build",
               "--python", ROOT / ".deps/python/bin/python", *options]  # fmt: skip
    status = subprocess.run(command).returncode
    if status == 0:
        started = subprocess.run(["chroot", root, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "-i",
                                  f"LD_LIBRARY_PATH=/builder/terrace/build/gpu_bundle/{LIBRARIES}",
                                  "/builder/terrace/build/gpu_check/terrace", "--version"], capture_output=True, text=True)  # fmt: skip
        print(started.stdout, started.stderr)
        status = started.returncode
    return status


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--inside":
        return inside(pathlib.Path(sys.argv[2]), sys.argv[3:])
    reason = missing()
    if reason:
        print(f"not run: {reason}")
        return 77
    subprocess.run([ROOT / "tools/gpu_bundle"], check=True)
    # Not under the temporary folder, which may be in memory.
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="chroot-") as name:
        for folder in ("root", "upper", "work"):
            (pathlib.Path(name) / folder).mkdir()
        options = sys.argv[1:] or ["--architectures", "90"]
        command = ["unshare", "--mount", "--net", "--fork", "--kill-child", sys.executable, __file__, "--inside", name, *options]
        return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
