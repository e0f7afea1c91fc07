"""Runs of terrace that a benchmark makes once: a finished one is not repeated, and one that was interrupted continues."""
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TERRACE = ROOT / "build/release/terrace"


def say(text):
    print(text, file=sys.stderr, flush=True)


def mean(values):
    return sum(values) / len(values)


def digest(*words):
    """A short name of what the words say."""
    return hashlib.sha256(" ".join(map(str, words)).encode()).hexdigest()[:8]


def validation_loss(folder, config, ranks, settings):
    """The validation loss after the last step of a run of the configuration's file, whose records lie in the folder, and
    the seconds that this took, or None if the run was finished before."""
    result = folder / "result.json"
    if result.exists():
        return json.loads(result.read_text())["validation_loss"], None
    folder.mkdir(parents=True, exist_ok=True)
    command = [TERRACE, "train", config, "--ranks", str(ranks), "--json", "--resume", "auto"]
    for setting in settings:
        command += ["--set", setting]
    began = time.monotonic()
    with open(folder / "log.txt", "a", encoding="utf-8") as log:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}; see {folder / 'log.txt'}\n{done.stdout}")
    loss = json.loads(done.stdout)["validation_loss"]
    result.write_text(json.dumps({"validation_loss": loss, "settings": settings}))
    return loss, time.monotonic() - began


def place():
    """(the commit, the machine) of a table that is made here."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return commit, f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
