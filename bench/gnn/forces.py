"""How many times as long a step with forces takes as one without.

    cmake --build build/release --target terrace_program bench_step_trainer
    .deps/python/bin/python bench/gnn/forces.py [--workloads schnet,painn] [--rounds 9] [--molecules FILE.xyz] [--output FILE.md]

The two trainers of a network stay resident and take turns; in each round both run an epoch of the same molecules (compare.py's), and the
ratio is taken within the round. The first two rounds do not count. For a machine on which nothing else runs.
"""
import argparse
import os
import pathlib
import sys
import tempfile
import types

from compare import EPOCH, ROOT, labelled_molecules
from comparison import machine, quartiles, spread, started, table, take_turns
from graph_workloads import GRAPHS, NAMED
from participant import Participant

WITH_FORCES = [name for name in NAMED if f"{name}-forces" in NAMED]
WARM_UP = 2


def measured(name, rounds, prefix, folder):
    """Epochs in ms without and with forces, by round."""
    runners = []
    for workload in (name, f"{name}-forces"):
        config = folder / f"{workload}.toml"
        config.write_text(NAMED[workload].config(prefix, "fp32", folder / "run"))
        runners.append(Participant(workload, [ROOT / "build/release/bench/bench_step_trainer", config]))
    if len(started(runners)) < len(runners):
        sys.exit(1)
    take_turns(name, runners, types.SimpleNamespace(rounds=WARM_UP + rounds, steps=EPOCH))
    for runner in runners:
        runner.stop()
    return [[sum(epoch) for epoch in runner.rounds[WARM_UP:]] for runner in runners]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="schnet,painn", type=lambda text: text.split(","))
    parser.add_argument("--rounds", default=9, type=int)
    parser.add_argument("--molecules", default=ROOT / "data/molecules.xyz", type=pathlib.Path, help="made where it is missing")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    if unknown := [name for name in options.workloads if name not in WITH_FORCES]:
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(WITH_FORCES)}")
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, prefix = labelled_molecules(options.molecules, folder)
        for workload in options.workloads:
            without, forces = measured(workload, options.rounds, prefix, folder)
            graphs = [f"{1e3 * GRAPHS / quartiles(epochs)[1]:.1f}" for epochs in (without, forces)]
            rows.append([workload, *graphs, spread(*quartiles([b / a for a, b in zip(without, forces)]))])
    text = f"{machine()}\n\n{table(['', 'graphs/s', 'with forces', 'times as long (quartiles)'], rows)}"
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
