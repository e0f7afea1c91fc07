"""What the folder that tools/gpu_bundle makes consists of: the packages of tools/gpu_packages.txt, and files whose hashes are in
its hashes.txt."""
import hashlib
import pathlib
from typing import NamedTuple

PACKAGE_LIST = pathlib.Path(__file__).resolve().parent / "gpu_packages.txt"
# Folder of the libraries within the bundle.
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class Package(NamedTuple):
    name: str
    version: str = ""
    sha256: str = ""


def packages():
    """The packages of the list; version and hash are empty where none is pinned yet."""
    lines = PACKAGE_LIST.read_text().splitlines()
    return [Package(*line.split()) for line in lines if line and not line.startswith("#")]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def changed_files(bundle):
    """Names of the files of a bundle that are missing or not as tools/gpu_bundle made them."""
    for line in (bundle / "hashes.txt").read_text().splitlines():
        wanted, name = line.split("  ", 1)
        path = bundle / name
        if not path.is_file() or sha256(path) != wanted:
            yield name
