"""What tools/bundle and tools/gpu_bundle share: lists of pinned Debian packages, their files with the pinned hashes, and folders whose
hashes.txt has the hash of each file."""
import hashlib
import pathlib
import subprocess
import sys
import tempfile
from typing import NamedTuple

MOST_BYTES = 60 * 2**20


class Package(NamedTuple):
    name: str
    version: str = ""
    sha256: str = ""


def stop(message):
    sys.exit(f"tools/{pathlib.Path(sys.argv[0]).name}: {message}")


def read_packages(path):
    """The packages of a list; version and hash are empty where none is pinned yet."""
    lines = path.read_text().splitlines()
    return [Package(*line.split()) for line in lines if line and not line.startswith("#")]


def write_packages(path, pinned):
    """Replaces the packages of a list and keeps its comment."""
    comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
    path.write_text("\n".join(comment + [" ".join(package) for package in pinned]) + "\n")


def require_pins(path):
    """The packages of a list, all of which have a version and a hash."""
    pinned = read_packages(path)
    unpinned = [package.name for package in pinned if not package.sha256]
    if unpinned:
        stop(f"tools/{path.name} pins no version and hash of {', '.join(unpinned)}; run it with --pin")
    return pinned


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def output_of(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    if result.returncode != 0:
        stop(f"{' '.join(map(str, command))} failed:\n{result.stderr}")
    return result.stdout


def today(name):
    """A binary package as apt would install it now, with its hash."""
    # The first paragraph of several is that of the newest version.
    paragraph = output_of("apt-cache", "show", name).split("\n\n")[0]
    fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and not line.startswith(" "))
    return Package(name, fields["Version"], fields["SHA256"])


def download(pinned, folder, list_name):
    """The files of binary packages, each with the hash that is pinned for it; files of an earlier call are used again."""
    folder.mkdir(parents=True, exist_ok=True)
    files, wrong = [], []
    for number, (name, version, wanted) in enumerate(pinned, 1):
        path = folder / f"{name}.{wanted[:16]}.deb"
        if not path.exists():
            print(f"[{number}/{len(pinned)}] download {name} {version}", flush=True)
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                result = subprocess.run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", f"{name}={version}"],
                                        cwd=scratch, capture_output=True, text=True)
                found = list(pathlib.Path(scratch).glob("*.deb"))
                if result.returncode != 0 or len(found) != 1:
                    wrong.append(f"{name} {version}: {result.stderr.strip() or 'not found'}")
                    continue
                if sha256(found[0]) != wanted:
                    wrong.append(f"{name} {version}: its SHA-256 is {sha256(found[0])} and not the pinned {wanted}")
                    continue
                found[0].rename(path)
        files.append(path)
    refuse(wrong, list_name)
    return files


def refuse(wrong, list_name):
    if wrong:
        stop("these packages could not be had as they are pinned:\n  " + "\n  ".join(wrong) +
             f"\nRun 'apt-get update'; where Debian has newer versions, --pin writes those into tools/{list_name}.")


def write_hashes(made):
    """Writes hashes.txt of a folder, as sha256sum reads it; gives the files."""
    contents = sorted(p for p in made.rglob("*") if p.is_file() and not p.is_symlink())
    (made / "hashes.txt").write_text("".join(f"{sha256(p)}  {p.relative_to(made)}\n" for p in contents))
    return contents


def changed_files(bundle):
    """Names of the files of a bundle that are missing or not as they were made."""
    for line in (bundle / "hashes.txt").read_text().splitlines():
        wanted, name = line.split("  ", 1)
        path = bundle / name
        if not path.is_file() or sha256(path) != wanted:
            yield name
