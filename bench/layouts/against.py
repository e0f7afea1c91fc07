"""Our trainer beside the one of another commit, on one rank and in every layout of compare.py.

    cmake --build build/release --target bench_layouts_trainer
    .deps/python/bin/python bench/layouts/against.py TREE [--workloads A,B,C] [--precisions fp32,bf16]
                                                     [--kinds data,tensor,pipeline] [--rounds 8] [--steps 2] [--output FILE.md]

TREE is a tree of the other commit in which the same target is built, such as the one that tools/same_bits leaves in
build/same_bits/. Both trainers stay resident and take turns: in each round each runs a few steps and the fastest counts; the
ratio is taken within the round, and the table has its median and quartiles over the rounds. Above 1 the present tree is faster.
"""
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "step")]
from comparison import (  # noqa: E402
    ROOT, argument_parser, compare, corpus_in, names, ratios, spread, started, table, take_turns,
)  # fmt: skip
from compare import LAYOUTS, our_participants  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

HEADINGS = ["", "type", "layout", "ms a step, the other commit", "ms a step", "faster (quartiles)"]
TRAINER = "build/release/bench/bench_layouts_trainer"


def milliseconds(runner):
    return f"{statistics.median(min(times) for times in runner.rounds):.1f}"


def measure(workload, precision, options, folder):
    config = folder / f"{workload}_{precision}.toml"
    config.write_text(WORKLOADS[workload].config(corpus_in(folder, WORKLOADS[workload].vocabulary), precision, folder / "run"))
    rows = []
    for kind in options.kinds:
        ours, theirs = (our_participants(workload, config, kind, tree / TRAINER) for tree in (ROOT, options.tree))
        # One rank is the same in every kind.
        pairs = list(zip(ours, theirs))[0 if kind == options.kinds[0] else 1 :]
        for pair in pairs:
            name = f"{workload} {precision} {pair[0].name}"
            if len(started(pair)) < 2:
                sys.exit(f"{name}: one of the trainers did not start")
            take_turns(name, pair, options)
            for runner in pair:
                runner.stop()
            now, before = pair
            rows.append([workload, precision, now.name, milliseconds(before), milliseconds(now), spread(*ratios(now, before))])
    return rows


def main():
    parser = argument_parser(__doc__, ["A", "B", "C"], [], rounds=8, steps=2)
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("--kinds", default=list(LAYOUTS), type=names)
    compare(parser.parse_args(), measure, lambda results: table(HEADINGS, [row for rows in results for row in rows]))


if __name__ == "__main__":
    main()
