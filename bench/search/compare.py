"""Trials that methods of search need to come within 1% of the best point of spaces whose points are all known: random search,
DeepHyper, Optuna's TPE, and terrace.

Usage, in the root of the repository: python3 bench/search/compare.py [--build build/planner] [--work build/bench_search]
[--seed N] [--first-seed N] [--seeds N] [--methods M,..] [--cap N] [--deephyper-cap N] [--jobs N]

The build needs the targets terrace_program and bench_search_trials. Every point of each space in bench/search/spaces, and of
one that --seed draws from the values of those, is simulated once. The peers run in a virtual environment in WORK, with the
packages of requirements.txt. WORK/runs.csv keeps the finished runs of the peers, which are not repeated. The table goes to
standard output."""

import argparse
import csv
import random
import statistics
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import peers

HERE = Path(__file__).resolve().parent
METHODS = ["random", "deephyper", "tpe", "terrace"]
LEAST_POINTS, LEAST_RARITY = 20_000, 300


def draw(seed):
    """The text of a space file: one of the spaces, whose ordered parameters keep some of their values, as long as there are
    enough points."""
    generator = random.Random(seed)
    text = generator.choice(sorted((HERE / "spaces").glob("*.toml"))).read_text()
    parameters = dict(peers.flat(tomllib.loads(text)["parameters"]))
    points = 1
    for parameter in parameters.values():
        points *= len(peers.values_of(parameter))
    for parameter in generator.sample(list(parameters.values()), len(parameters)):
        values = parameter.get("values", [])
        if len(values) > 2 and points // len(values) * (len(values) - 1) >= LEAST_POINTS:
            left_out = generator.choice(values)
            old = "values = " + toml_list(values)
            points = points // len(values) * (len(values) - 1)
            text = text.replace(old, "values = " + toml_list([one for one in values if one != left_out]), 1)
    return text


def toml_list(values):
    return "[" + ", ".join(f'"{one}"' if isinstance(one, str) else peers.text_of(one) for one in values) + "]"


def make_table(build, folder, text):
    """Simulates all points, unless that was done."""
    if (folder / "complete").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "space.toml").write_text(text)
    subprocess.run([build / "terrace", "search", folder / "space.toml", "--method", "exhaustive", "--output", folder],
                   check=True, stdout=subprocess.DEVNULL)
    (folder / "complete").touch()


def make_environment(folder):
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", HERE / "requirements.txt"], check=True)
    return python


def read_runs(paths, seeds):
    """Trials by (space, parallel, method) of runs with these seeds."""
    runs = defaultdict(list)
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                if int(row["seed"]) in seeds:
                    runs[row["space"], row["parallel"], row["method"]].append(int(row["trials"]))
    return runs


def print_tables(tables, runs):
    print("| space | points | that fail | within 1% of the best |\n| --- | --- | --- | --- |")
    for space, table in tables.items():
        known = [value for value in table.objectives.values() if value is not None]
        points, near = len(table.objectives), sum(value >= table.enough for value in known)
        rarity = "" if points >= LEAST_RARITY * near else ", more than this comparison is for"
        print(f"| `{space}` | {points:,} | {1 - len(known) / points:.1%} | {near}, 1 in {points // near:,}{rarity} |")
    print("\n| space | at a time | " + " | ".join(METHODS) + " | of random's | of DeepHyper's | of TPE's |")
    print("| --- " * (len(METHODS) + 5) + "|")
    for space, parallel in sorted({key[:2] for key in runs}):
        row, medians = [f"`{space}`", parallel], {}
        for method in METHODS:
            trials = runs.get((space, parallel, method))
            if trials:
                medians[method] = statistics.median(trials)
                low, _, high = statistics.quantiles(trials, n=4) if len(trials) > 1 else trials * 3
                row.append(f"{medians[method]:g} ({low:g} to {high:g}; {len(trials)} runs)")
            else:
                row.append("")
        for peer in METHODS[:-1]:
            both = "terrace" in medians and peer in medians
            row.append(f"{medians['terrace'] / medians[peer]:.2f}" if both else "")
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/planner"))
    parser.add_argument("--work", type=Path, default=Path("build/bench_search"))
    parser.add_argument("--seed", type=int, help="of one more space")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cap", type=int, default=2000, help="trials of a run")
    parser.add_argument("--deephyper-cap", type=int, default=500, help="trials of a run of DeepHyper, which is slow")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    spaces = {path.stem: path.read_text() for path in sorted((HERE / "spaces").glob("*.toml"))}
    if arguments.seed is not None:
        spaces[f"drawn_{arguments.seed}"] = draw(arguments.seed)
    tables = arguments.work / "tables"
    for space, text in spaces.items():
        make_table(arguments.build, tables / space, text)
    methods = arguments.methods.split(",")
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    runs, own = arguments.work / "runs.csv", arguments.work / "terrace.csv"
    common = ["--spaces", ",".join(spaces), "--first-seed", str(arguments.first_seed), "--seeds",
              str(arguments.seeds)]
    if "terrace" in methods:
        with open(own, "w") as file:
            subprocess.run([arguments.build / "bench" / "bench_search_trials", tables, *common, "--cap",
                            str(arguments.cap)], check=True, stdout=file)
    for method in [one for one in methods if one != "terrace"]:
        python = make_environment(arguments.work / "venv")
        cap = arguments.deephyper_cap if method == "deephyper" else arguments.cap
        subprocess.run([python, HERE / "peers.py", tables, runs, *common, "--methods", method, "--cap", str(cap), "--jobs",
                        str(arguments.jobs)], check=True)
    print_tables({space: peers.Table(tables / space) for space in spaces},
                 read_runs([path for path in (runs, own) if path.exists()], seeds))


if __name__ == "__main__":
    main()
