"""How much of data-parallel communication is hidden over a slow link between two machines.

    cmake --build build/release --target bench_layouts_overlap
    .deps/python/bin/python bench/layouts/overlap.py [--shardings ddp,zero1,zero3] [--share 0.6] [--steps 5] [--rounds 3]
                                                     [--output FILE.md] [section.key=value...]

The machines are two network namespaces joined by a link. A run on a fast link tells how much a step sends and how long it
computes, another one on a limited link what the calls take by themselves; the limit is then set so that they take the
wished share of the computation. What of their time a step did not wait for was hidden. Needs root.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "step"), str(ROOT / "tests/house")]
from comparison import machine, names, table  # noqa: E402
from namespaces import Namespaces, NotAllowed  # noqa: E402

PROGRAM = ROOT / "build/release/bench/bench_layouts_overlap"
HEADINGS = ["sharding", "link, Mbit/s", "step without, ms", "step with, ms", "share", "group", "MB a step", "alone, ms", "waited, ms", "hidden"]


class Run:
    """What the program printed: seconds, and (bytes, seconds alone, seconds waited) of each group that sends."""

    def __init__(self, text):
        words = [line.split()[1:] for line in text.splitlines() if line.startswith("@ ")]
        self.seconds = {line[0]: float(line[1]) for line in words if line[0] != "group"}
        self.groups = {}
        for _, name, size, alone, waited in (line for line in words if line[0] == "group"):
            # Words of a few bytes that the ranks agree on are no movement of weights or gradients.
            if int(size) >= 2**20:
                self.groups[name] = (int(size), float(alone), float(waited))

        self.groups["together"] = tuple(sum(part) for part in zip(*self.groups.values()))

    def share(self):
        """Of the computation's time that communication takes by itself."""
        return self.groups["together"][1] / self.seconds["without"]


def run(namespaces, sharding, options):
    with tempfile.TemporaryFile("w+") as output:
        status = namespaces.mpirun([PROGRAM, sharding, str(options.steps), *options.settings], output)
        if status != 0:
            sys.exit(f"bench_layouts_overlap {sharding} ended with {status}")
        output.seek(0)
        return Run(output.read())


def rows(sharding, options):
    with Namespaces() as namespaces:
        free = run(namespaces, sharding, options)
        megabits = 8e-6 * free.groups["together"][0] / (options.share * free.seconds["without"])
        namespaces.limit(megabits)
        megabits *= run(namespaces, sharding, options).share() / options.share
        namespaces.limit(megabits)
        runs = [run(namespaces, sharding, options) for _ in range(options.rounds)]
    step = [f"{1e3 * statistics.median(one.seconds[key] for one in runs):.0f}" for key in ("without", "with")]
    step.append(f"{100 * statistics.median(one.share() for one in runs):.0f}%")
    lines = []
    for group in runs[0].groups:
        numbers = [one.groups[group] for one in runs]
        size, alone, waited = (statistics.median(part) for part in zip(*numbers))
        hidden = statistics.median(1 - waited / alone for _, alone, waited in numbers)
        lines.append([sharding, f"{megabits:.0f}", *step, group, f"{1e-6 * size:.1f}", f"{1e3 * alone:.0f}",
                      f"{1e3 * waited:.0f}", f"{100 * hidden:.0f}%"])  # fmt: skip
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shardings", default=["ddp", "zero1", "zero3"], type=names)
    parser.add_argument("--share", type=float, default=0.6, help="of the computation's time that communication takes")
    parser.add_argument("--steps", type=int, default=5, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", help="also write the table to this file")
    parser.add_argument("settings", nargs="*", help="section.key=value of the configuration")
    options = parser.parse_args()
    if os.getuid() != 0:
        sys.exit("overlap.py: network namespaces and limits of links need root; run it as root")
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    try:
        lines = [line for sharding in options.shardings for line in rows(sharding, options)]
    except NotAllowed as error:
        sys.exit(f"overlap.py: this machine allows no network namespaces: {error}")
    text = f"{machine()}; {' '.join(sys.argv[1:])}\n\n{table(HEADINGS, lines)}"
    if options.output:
        pathlib.Path(options.output).write_text(text)
    print(text)


if __name__ == "__main__":
    main()
