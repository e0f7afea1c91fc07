"""Runs tools/gpu_check's build as on a machine without a network: from the bundle, in a copy of this system from which the
packages of the bundle are gone, as a user who is not root. Then two ranks of the built terrace train under the bundle's MPI.

    gpu_check_in_chroot.py [options of tools/gpu_check]

Needs root (for the copy, an overlay that is thrown away), iproute2, the CUDA toolkit and the wheel of tools/setup --test
--cuda; exits with 77 where one is missing. Takes a quarter of an hour on two cores.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import chroot  # noqa: E402
from gpu_bundle_files import LIBRARIES, packages, program_environment  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The sources in the copy.
TREE = pathlib.Path("/builder/terrace")
# Libraries that the compiler, CMake and Python themselves load.
NEEDED_BY_TOOLS = {"zlib1g", "libzstd1", "libpcre2-8-0", "libudev1", "libxxhash0"}


def missing():
    if os.geteuid() != 0:
        return "this is not root"
    if not shutil.which("ip"):
        return "there is no iproute2"
    if not shutil.which("nvcc") and not pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
        return "there is no CUDA toolkit"
    if not (ROOT / ".deps/python/lib/python3.11/site-packages/nvidia/nccl").exists():
        return "tools/setup --test --cuda has not installed the full wheel"
    return None


def remove_packages(root):
    """Removes the files of the bundle's packages from the copy."""
    removed = ({package.name for package in packages()} - NEEDED_BY_TOOLS) | {"ccache", "pkgconf", "pkg-config", "openssh-client"}
    for name in sorted(removed):
        listed = subprocess.run(["dpkg", "-L", name], capture_output=True, text=True).stdout.splitlines()
        for file in listed:
            path = root / file.lstrip("/")
            if path.is_symlink() or path.is_file():
                path.unlink()


def inside(scratch, options):
    """Called in namespaces of its own: mounts the copy, makes it bare, builds in it and runs what was built."""
    chroot.start_loopback()
    root = scratch / "root"
    chroot.mount_over("/", root, scratch)
    chroot.mount_of_system(root, ["proc", "dev", "sys"])
    remove_packages(root)
    tree = root / TREE.relative_to("/")
    home = tree.parent
    home.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, tree], check=True)
    shutil.copytree(ROOT / "build/gpu_bundle", tree / "build/gpu_bundle", symlinks=True)
    chroot.give_to_nobody(home)
    for path in ("usr/include/fmt/core.h", "usr/bin/orterun", "usr/include/gtest/gtest.h"):
        assert not (root / path).exists(), path
    user = {"HOME": TREE.parent, "PATH": "/usr/bin:/bin:/usr/local/cuda/bin"}
    bundle, terrace = TREE / "build/gpu_bundle", TREE / "build/gpu_check/terrace"
    commands = [
        (user, ["python3", "tools/gpu_check", "--parts", "build", "--python", ROOT / ".deps/python/bin/python", *options]),
        ({"LD_LIBRARY_PATH": bundle / LIBRARIES}, [terrace, "--version"]),
        # timeout ends the ranks too, because it asks orterun to stop.
        (program_environment(bundle, user),
         ["timeout", "120", "orterun", "-n", "2", terrace, "verify", "configs/tiny.toml", "--set", "layout.sharding=zero3"]),
    ]  # fmt: skip
    for environment, command in commands:
        if status := chroot.run_as_nobody(root, TREE, environment, command):
            print(f"exit code {status} of {' '.join(map(str, command))}")
            return status
    return 0


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--inside":
        return inside(pathlib.Path(sys.argv[2]), sys.argv[3:])
    reason = missing()
    if reason:
        print(f"not run: {reason}")
        return 77
    subprocess.run([ROOT / "tools/gpu_bundle"], check=True)
    # The folder is not under the temporary folder, which may be in memory.
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="chroot-") as name:
        return chroot.in_namespaces(__file__, chroot.make_scratch(name), sys.argv[1:] or ["--architectures", "90"])


if __name__ == "__main__":
    sys.exit(main())
