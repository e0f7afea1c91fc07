#!/usr/bin/env python3
# Builds the program of one or several commits without a compiler cache, and prints the compilers' time of each.
"""bench/build/compile_times.py [COMMIT ..] [--target terrace_program]

Each commit is checked out beside the build (the word "here" means the present tree), configured as README says, and built
from nothing with as many compilers as there are cores. Printed are the processor time of all compilers, which other
processes disturb little, the time that passed, and the slowest steps. The last column is the first tree's compilers' time
as a multiple of each tree's."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/compile_times"
STEP = pathlib.Path(__file__).with_name("timed_step.py")


def run(command, log, cwd):
    with open(log, "w", encoding="utf-8") as output:
        result = subprocess.run([str(word) for word in command], cwd=cwd, stdout=output, stderr=subprocess.STDOUT)
    if result.returncode != 0:
        tail = "".join(log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[-15:])
        sys.exit(f"compile_times: {' '.join(map(str, command[:4]))} .. ended with {result.returncode}; {log} ends with\n{tail}")


def tree_of(commit):
    if commit == "here":
        return ROOT
    tree = WORK / f"tree_{commit}"
    shutil.rmtree(tree, ignore_errors=True)
    run(["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, tree], WORK / "clone.log", ROOT)
    run(["git", "checkout", "--quiet", commit], WORK / "clone.log", tree)
    (tree / ".deps").symlink_to(ROOT / ".deps")
    return tree


def measure(commit, target, jobs):
    tree, build = tree_of(commit), WORK / f"build_{commit}"
    shutil.rmtree(build, ignore_errors=True)
    steps = WORK / f"steps_{commit}.jsonl"
    steps.unlink(missing_ok=True)
    # An empty TERRACE_CCACHE is a search that found nothing.
    run(["cmake", "--preset", "release", "-B", build, "-DTERRACE_CCACHE=", f"-DCMAKE_CXX_COMPILER_LAUNCHER={sys.executable};{STEP};{steps}"],
        WORK / f"configure_{commit}.log", tree)  # fmt: skip
    began = time.monotonic()
    run(["cmake", "--build", build, "--target", target, "-j", jobs], WORK / f"build_{commit}.log", tree)
    passed = time.monotonic() - began
    lines = [json.loads(line) for line in steps.read_text().splitlines()]
    shutil.rmtree(build)
    return passed, sorted(((line["cpu_seconds"], line["output"]) for line in lines), reverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", default=["here"], help='commits, or "here" for the present tree')
    parser.add_argument("--target", default="terrace_program", help="what is built (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at a time (%(default)s)")
    parser.add_argument("--slowest", type=int, default=8, help="slowest steps to name (%(default)s)")
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    first = None
    for commit in arguments.commits:
        passed, steps = measure(commit, arguments.target, arguments.jobs)
        seconds = sum(cpu for cpu, _ in steps)
        first = first or seconds
        print(f"{commit}: {arguments.target} in {passed:.0f} s with {arguments.jobs} compilers; {len(steps)} steps, "
              f"{seconds:.0f} s of compilers' time, {first / seconds:.2f} times", flush=True)  # fmt: skip
        for cpu, output in steps[: arguments.slowest]:
            print(f"  {cpu:6.1f} s  {output}")


if __name__ == "__main__":
    main()
