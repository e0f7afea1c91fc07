"""Installs terrace from the archive of tools/bundle in a bare Debian of debootstrap, without a network, as a user who is not root, and
trains there with what was installed after it was moved and torch's folder was taken away.

    install_in_root.py SUITE COMPILER

SUITE is a release of Debian, such as bookworm or trixie, COMPILER a C++ compiler that it has a package of, such as g++ or clang++-16.
Needs root, debootstrap, iproute2, a network for the packages of the root, and the wheel of tools/setup; exits with 77 where one is
missing. Takes a quarter of an hour on two cores.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import chroot  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = ROOT / ".deps/python/lib/python3.11/site-packages"
ROOTS = ROOT / "build/roots"
USER = pathlib.Path("/builder")
PACKAGES = ["cmake", "ninja-build", "libc6-dev", "make", "libopenmpi-dev", "openmpi-bin"]
OPEN_MPI = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_plm": "isolated", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none",
            "OMP_NUM_THREADS": "1"}  # fmt: skip


def missing():
    if os.geteuid() != 0:
        return "this is not root"
    for program in ("debootstrap", "ip"):
        if not shutil.which(program):
            return f"there is no {program}"
    if not (WHEEL / "torch").exists():
        return "tools/setup has not installed the wheel of torch"
    return None


def compiler_packages(compiler):
    """Debian's packages of a C++ compiler, and the name of its C compiler."""
    if compiler.startswith("clang"):
        version = compiler.removeprefix("clang++")
        return [f"clang{version}", f"libomp{version}-dev"], compiler.replace("clang++", "clang")
    return [compiler], compiler.replace("g++", "gcc")


def make_root(suite, compiler):
    """The folder of a Debian with what building needs, once; None where its packages cannot be had."""
    base, made = ROOTS / suite, ROOTS / f"{suite}-{compiler}"
    log = ROOTS / f"{suite}.log"
    ROOTS.mkdir(parents=True, exist_ok=True)
    if made.exists():
        return made
    print(f"== a root of {suite} with {compiler}", flush=True)
    for half in (base, made.with_suffix(".half")):
        shutil.rmtree(half, ignore_errors=True)
    half = made.with_suffix(".half")
    names = " ".join(PACKAGES + compiler_packages(compiler)[0])
    # debootstrap's own choice of packages does not follow all alternatives, so apt installs them.
    for command in (["debootstrap", "--variant=minbase", suite, half],
                    ["chroot", half, "sh", "-c", "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install "
                     f"--no-install-recommends {names}"]):  # fmt: skip
        with log.open("a") as output:
            if subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode != 0:
                print(f"{' '.join(map(str, command))} failed; see {log}")
                return None
    half.rename(made)
    return made


def inside(scratch, lower, archive, compiler):
    """Called in namespaces of its own: installs in the root, moves the installation, takes torch away and trains."""
    chroot.start_loopback()
    root = scratch / "root"
    chroot.mount_over(lower, root, scratch)
    chroot.mount_of_system(root, ["proc", "sys"])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "shm", root / "dev/shm"], check=True)
    home, wheel = root / USER.relative_to("/"), root / "wheel"
    home.mkdir()
    wheel.mkdir()
    subprocess.run(["mount", "--bind", "-o", "ro", WHEEL, wheel], check=True)
    shutil.copy(archive, home / "terrace.tar.gz")
    chroot.give_to_nobody(home)
    user = {"HOME": USER, "PATH": "/usr/bin:/bin", "CXX": compiler, "CC": compiler_packages(compiler)[1]}
    run = {"HOME": USER, "PATH": "/usr/bin:/bin", **OPEN_MPI}
    moved = USER / "elsewhere/terrace"
    train = [moved / "bin/terrace", "verify", moved / "share/configs/tiny.toml", "--set", "layout.sharding=zero3"]
    said = home / "said.txt"
    steps = [
        (user, ["sh", "-c", "tar xzf terrace.tar.gz && terrace-*/tools/setup --from terrace.tar.gz --torch /wheel/torch "
                f"--prefix {USER}/installed --build {USER}/build"]),
        (user, ["sh", "-c", f"rm -r build terrace-* terrace.tar.gz && mkdir elsewhere && mv installed {moved}"]),
        "the machine's torch is taken away",
        (run, ["sh", "-c", f"{moved}/bin/terrace --version > said.txt"]),
        # timeout ends the ranks too, because it asks mpirun to stop.
        (run, ["timeout", "300", "mpirun", "-n", "2", *train]),
        (run, [moved / "bin/terrace", "plan", moved / "share/configs/tiny.toml"]),
        (run, [moved / "bin/terrace", "plan", moved / "share/configs/tiny.toml", "--machine", moved / "share/machines/frontier.toml"]),
    ]  # fmt: skip
    for step in steps:
        if isinstance(step, str):
            subprocess.run(["umount", wheel], check=True)
            continue
        environment, command = step
        if status := chroot.run_as_nobody(root, USER, environment, command):
            print(f"exit code {status} of {' '.join(map(str, command))}")
            return status
    text = said.read_text()
    print(text)
    wanted = [subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip(),
              "compiler: Clang" if compiler.startswith("clang") else "compiler: GNU", "torch: 2.11.", "Open MPI ", "CUDA: none", "of the archive"]  # fmt: skip
    absent = [part for part in wanted if part not in text]
    linked = subprocess.run(["readelf", "-d", home / "elsewhere/terrace/bin/terrace"], capture_output=True, text=True, check=True).stdout
    paths = re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", linked)[0].split(":")
    # MPI alone is the machine's.
    absolute = [path for path in paths if path and not path.startswith("$ORIGIN/") and not list((root / path.lstrip("/")).glob("libmpi.so*"))]
    print(f"run path {paths}; --version does not say {absent}")
    return 1 if absent or absolute else 0


def main():
    if len(sys.argv) == 6 and sys.argv[1] == "--inside":
        scratch, lower, archive = map(pathlib.Path, sys.argv[2:5])
        return inside(scratch, lower, archive, sys.argv[5])
    suite, compiler = sys.argv[1:]
    reason = missing()
    made = None if reason else make_root(suite, compiler)
    if made is None:
        print(f"not run: {reason or 'the packages of the root cannot be had'}")
        return 77
    archive = ROOT / "build/roots/terrace.tar.gz"
    subprocess.run([ROOT / "tools/bundle", "--output", archive], check=True)
    with tempfile.TemporaryDirectory(dir=ROOTS, prefix="chroot-") as name:
        return chroot.in_namespaces(__file__, chroot.make_scratch(name), [made, archive, compiler])


if __name__ == "__main__":
    sys.exit(main())
