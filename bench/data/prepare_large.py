#!/usr/bin/env python3
# Prepares about a GB of text and looks at memory and at the estimate of the time left.
# Usage: bench/data/prepare_large.py [--bytes N] [--threads N] [--terrace PATH] [--scratch FOLDER]
# The text is made of Debian packages (prose, documentation and a dictionary), fetched into the scratch folder; all is
# deleted at the end. Prints one JSON object.
import argparse
import gzip
import json
import os
import pathlib
import pty
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("anarchism", "dict-gcide", "python3.11-doc", "aptitude-doc-en", "debian-policy", "maint-guide", "emacs-common")
TEXT = re.compile(r"\.(txt|md|html|rst|dict|info)(\.gz|\.dz)?$")
BAR = re.compile(r"(tokenizing|reading for the tokenizer) \[[#.]*\] +(\d+)%(?:, ([^,]*?) left)?  ")
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}


def fetch(package, folder):
    """The package's text files; a package that this release does not have gives none."""
    download = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", package]
    if subprocess.run(download, cwd=folder, capture_output=True).returncode != 0:
        return []
    unpacked = folder / package
    archive = next(folder.glob(f"{package}_*.deb"))
    subprocess.run(["dpkg-deb", "-x", archive, unpacked], check=True)
    archive.unlink()
    return sorted(path for path in unpacked.rglob("*") if path.is_file() and not path.is_symlink() and TEXT.search(path.name))


def text_of(path):
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def write_input(paths, size, folder):
    """Files of 8 MB out of shuffled pieces of 64 KB, so that no part of the input differs much from another."""
    whole = [text_of(path) for path in paths]
    pieces = [text[at:at + 65536] for text in whole for at in range(0, len(text), 65536)]
    draw, written, files = random.Random(1), 0, 0
    folder.mkdir()
    while written < size:
        with open(folder / f"part{files:04}.txt", "wb") as file:
            while file.tell() < 8_000_000 and written + file.tell() < size:
                file.write(draw.choice(pieces))
            written += file.tell()
        files += 1
    return written, sum(map(len, whole))


def seconds_of(text):
    words = text.split()
    return sum(float(number) * UNITS[unit] for number, unit in zip(words[::2], words[1::2]))


def resident_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS")), 0)
    except FileNotFoundError:
        return 0


def prepare(command):
    """Runs on a terminal, where progress is shown ten times a second: (bars with their times, memory with its times, seconds)."""
    bars, memory, pending = [], [], ""
    began = time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], command)
    ended = threading.Event()

    def watch():
        while not ended.wait(0.2):
            memory.append((time.monotonic() - began, resident_bytes(child)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        pending += part.decode(errors="replace")
        for match in BAR.finditer(pending):
            bars.append((time.monotonic() - began, match[1], int(match[2]), seconds_of(match[3]) if match[3] else None))
        pending = pending[-200:] if not BAR.search(pending) else pending[BAR.search(pending).end():]
    status = os.waitpid(child, 0)[1]
    ended.set()
    watcher.join()
    if status != 0:
        sys.exit(f"terrace data prepare failed:\n{pending}")
    return bars, memory, time.monotonic() - began


def judge(bars, memory, seconds):
    tokenizing = [bar for bar in bars if bar[1] == "tokenizing"]
    tenth = next(bar for bar in tokenizing if bar[2] >= 10)
    left = seconds - tenth[0]
    half = [bytes for at, bytes in memory if at < tenth[0] + left / 2 and at > tenth[0]]
    rest = [bytes for at, bytes in memory if at >= tenth[0] + left / 2]
    return {
        "seconds": seconds,
        "tokenizer_seconds": tokenizing[0][0] - 2,  # nothing is shown in the first two seconds
        "at_a_tenth": {"after_seconds": tenth[0], "estimated_left": tenth[3], "left": left, "ratio": tenth[3] / left,
                       "ratio_of_the_whole": (tenth[0] + tenth[3]) / seconds},
        "worst_ratio_after_a_tenth": max((bar[3] / (seconds - bar[0]) for bar in tokenizing if 10 <= bar[2] <= 90),
                                         key=lambda ratio: abs(ratio - 1)),
        "memory_bytes": {"first_half": max(half), "second_half": max(rest), "peak": max(bytes for _, bytes in memory)},
    }


def main():
    parser = argparse.ArgumentParser(description="Memory and estimate of terrace data prepare on a large input.")
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--threads", default="0")
    parser.add_argument("--vocabulary", default="8192")
    parser.add_argument("--terrace", default=str(SOURCE / "build/release/terrace"))
    parser.add_argument("--scratch", type=pathlib.Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        folder = pathlib.Path(folder)
        paths = {package: fetch(package, folder) for package in PACKAGES}
        size, distinct = write_input([path for found in paths.values() for path in found], arguments.bytes, folder / "in")
        command = [arguments.terrace, "data", "prepare", str(folder / "in"), "--output", str(folder / "out/corpus"),
                   "--train-tokenizer", str(folder / "out/tokenizer.model"), "--vocabulary", arguments.vocabulary,
                   "--threads", arguments.threads]
        load = os.getloadavg()
        result = judge(*prepare(command))
        result |= {"input_bytes": size, "distinct_bytes": distinct, "load_before_and_after": [load[0], os.getloadavg()[0]],
                   "packages": [package for package, found in paths.items() if found]}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
