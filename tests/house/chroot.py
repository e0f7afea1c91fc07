"""What the tests share that run commands in a root of their own, as a user who is not root and without a network."""
import pathlib
import subprocess
import sys

NOBODY = 65534


def in_namespaces(script, folder, options):
    """Calls `script --inside FOLDER OPTIONS..` in mount and network namespaces of its own, which end with it; gives its exit code."""
    command = ["unshare", "--mount", "--net", "--fork", "--kill-child", sys.executable, script, "--inside", folder, *options]
    return subprocess.run(command).returncode


def start_loopback():
    """Open MPI connects its processes over an interface."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def mount_over(lower, root, scratch):
    """Mounts at `root` a view of `lower` whose changes go to `scratch`, which has the folders upper and work, on the same disk."""
    layers = f"lowerdir={lower},upperdir={scratch / 'upper'},workdir={scratch / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, root], check=True)


def mount_of_system(root, names):
    """Mounts folders of this system at the same places of `root`; Open MPI reads the processors from /sys."""
    for name in names:
        subprocess.run(["mount", "--rbind", f"/{name}", root / name], check=True)


def give_to_nobody(folder):
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)


def run_as_nobody(root, folder, environment, command):
    """Runs a command in a folder of `root` with this environment alone; gives its exit code."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return subprocess.run(["chroot", root, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                           "env", "-i", f"--chdir={folder}", *variables, *command]).returncode  # fmt: skip


def make_scratch(name):
    """The folders of an overlay and its mount point below a scratch folder."""
    scratch = pathlib.Path(name)
    for folder in ("root", "upper", "work"):
        (scratch / folder).mkdir()
    return scratch
