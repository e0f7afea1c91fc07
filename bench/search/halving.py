"""Asynchronous successive halving beside random search, for the optimizer's settings of a small model at equal cost.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/search/halving.py [--seeds 5] [--output FILE.md]

For each seed, a search of bench/search/halving.toml, then a random search with so many whole runs that it makes at least as many
steps; the table compares the held-out losses of the best run of each, after all steps. About three minutes a seed on two
cores. The data are those that ./demo prepares.
"""
import csv
import pathlib
import shutil
import statistics
import sys

from running import ROOT, arguments_of, search, write_result

SPACE = pathlib.Path(__file__).resolve().parent / "halving.toml"
FOLDER = ROOT / "runs/search_halving"
STEPS = 540


def steps_made(name):
    """By all trials; one that failed counts to its budget."""
    with open(FOLDER / name / "results.csv", newline="") as file:
        reached = {}
        for row in csv.DictReader(file):
            reached[row["m:trial"]] = max(reached.get(row["m:trial"], 0), int(row["m:budget"]))
    return sum(reached.values())


def main():
    arguments = arguments_of(__doc__, "seeds", 5)
    shutil.rmtree(FOLDER, ignore_errors=True)
    rows, differences = [], []
    for seed in range(1, arguments.seeds + 1):
        halved = search(SPACE, FOLDER / f"halving_{seed}", "--seed", seed)
        steps = steps_made(f"halving_{seed}")
        runs = -(-steps // STEPS)
        chance = search(SPACE, FOLDER / f"random_{seed}", "--seed", seed, "--method", "random", "--trials", runs)
        losses = [one["best"][0]["value"] for one in (halved, chance)]
        differences.append(losses[0] - losses[1])
        rows.append([str(seed), str(halved["parts"]), f"{steps:,}", f"{losses[0]:.4f}", str(runs), f"{runs * STEPS:,}",
                     f"{losses[1]:.4f}", f"{differences[-1]:+.4f}"])
        print(f"seed {seed}: {losses[0]:.4f} and {losses[1]:.4f}", file=sys.stderr, flush=True)
    headings = ["seed", "parts of trials", "steps", "loss, successive halving", "whole runs", "steps", "loss, random search", "difference"]
    write_result(arguments, "Successive halving beside random search", f"bench/search/halving.py --seeds {arguments.seeds}",
                 f"Held-out losses of the best run after {STEPS} steps.", headings, rows,
                 f"Median difference: {statistics.median(differences):+.4f}; successive halving is better with "
                 f"{sum(one < 0 for one in differences)} of {len(differences)} seeds.")


if __name__ == "__main__":
    main()
