"""Runs terrace search for the benchmarks whose trials are runs on this machine."""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench/step")]
from comparison import machine, table  # noqa: E402

PROGRAM = ROOT / "build/release/terrace"


def terrace(*arguments):
    """What the program prints; ends this one if it fails."""
    run = subprocess.run([PROGRAM, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"terrace {' '.join(map(str, arguments))}: exit code {run.returncode}")
    return run.stdout


def search(space, folder, *more):
    return json.loads(terrace("search", space, "--output", folder, "--json", *more))


def arguments_of(about, counted, default):
    """With --output FILE.md and a number, --COUNTED N."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument(f"--{counted}", type=int, default=default)
    parser.add_argument("--output", type=pathlib.Path)
    return parser.parse_args()


def write_result(arguments, title, command, text, headings, rows, below=""):
    result = f"# {title}\n\n{machine()}\n\n`.deps/python/bin/python {command}`\n\n{text}\n\n{table(headings, rows)}"
    result += f"\n{below}\n" if below else ""
    print(result)
    if arguments.output:
        arguments.output.write_text(result)
