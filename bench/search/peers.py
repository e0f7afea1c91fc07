"""Runs random search, DeepHyper and Optuna's TPE over tables of enumerated points, for compare.py.

Usage: peers.py FOLDER RUNS.CSV [--methods M,..] [--spaces S,..] [--parallel 1,4] [--first-seed N] [--seeds N] [--cap N] [--jobs N]

FOLDER/SPACE holds space.toml and results.csv of `terrace search --method exhaustive`. A run ends with the first trial within
1% of the best point. A line of RUNS.CSV is a finished run, which is not repeated."""

import argparse
import csv
import logging
import multiprocessing
import os
import random
import tempfile
import tomllib
import warnings
from pathlib import Path

COLUMNS = ["space", "method", "parallel", "seed", "cap", "trials", "distinct", "found"]


class Table:
    """The objective of every point, the larger the better; None if it fails."""

    def __init__(self, folder):
        self.parameters = tomllib.loads((folder / "space.toml").read_text())["parameters"]
        self.parameters = dict(flat(self.parameters))
        self.objectives = {}
        with open(folder / "results.csv", newline="") as file:
            for row in csv.DictReader(file):
                text = row["objective"]
                point = tuple(row["p:" + name] for name in self.parameters)
                self.objectives[point] = None if text.startswith("F") else float(text)
        best = max(value for value in self.objectives.values() if value is not None)
        self.enough = best - abs(best) / 100

    def values(self, name):
        return values_of(self.parameters[name])

    def is_categorical(self, name):
        return self.parameters[name]["type"] == "categorical"

    def objective(self, indices):
        """Of the point with these indices of values, by name."""
        return self.objectives[tuple(text_of(self.values(name)[indices[name]]) for name in self.parameters)]


def flat(tables, prefix=""):
    for name, table in tables.items():
        if isinstance(table.get("type"), str):
            yield prefix + name, table
        else:
            yield from flat(table, prefix + name + ".")


def values_of(parameter):
    if "range" in parameter:
        return list(range(parameter["range"][0], parameter["range"][1] + 1))
    return parameter["values"]


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


class Random:
    """Every point once."""

    def __init__(self, table, seed, parallel):
        self.table, self.generator = table, random.Random(seed)
        self.seen = set()

    def ask(self, count):
        points = []
        while len(points) < count:
            point = {name: self.generator.randrange(len(self.table.values(name))) for name in self.table.parameters}
            if tuple(point.values()) not in self.seen:
                self.seen.add(tuple(point.values()))
                points.append(point)
        return points

    def tell(self, points, objectives):
        pass


class DeepHyper:
    """The Bayesian search CBO with its defaults, but without its limit of 100 failures. Ordered parameters are integers,
    the indices of their values."""

    def __init__(self, table, seed, parallel):
        from deephyper.hpo import CBO, HpProblem

        problem = HpProblem()
        self.names = {name: name.replace(".", "_") for name in table.parameters}
        for name, plain in self.names.items():
            last = len(table.values(name)) - 1
            if table.is_categorical(name):
                problem.add_hyperparameter([str(i) for i in range(last + 1)], plain)
            else:
                problem.add_hyperparameter((0, last), plain)
        self.folder = tempfile.TemporaryDirectory()
        self.search = CBO(problem, random_state=seed, log_dir=self.folder.name, checkpoint_history_to_csv=False,
                          acq_optimizer_kwargs={"max_total_failures": -1})
        self.asked = []

    def ask(self, count):
        self.asked = self.search.ask(count)
        return [{name: int(one[plain]) for name, plain in self.names.items()} for one in self.asked]

    def tell(self, points, objectives):
        self.search.tell([(asked, "F_failed" if value is None else value)
                          for asked, value in zip(self.asked, objectives, strict=True)])


class Tpe:
    """Optuna's TPESampler with its defaults, and with constant_liar for trials at a time, as its documentation advises.
    A failed trial counts as pruned, since the sampler learns nothing from TrialState.FAIL."""

    def __init__(self, table, seed, parallel):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.table, self.pruned = table, optuna.trial.TrialState.PRUNED
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=parallel > 1)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.asked = []

    def ask(self, count):
        self.asked = [self.study.ask() for _ in range(count)]
        return [self.suggest(trial) for trial in self.asked]

    def suggest(self, trial):
        point = {}
        for name in self.table.parameters:
            last = len(self.table.values(name)) - 1
            if self.table.is_categorical(name):
                point[name] = trial.suggest_categorical(name, list(range(last + 1)))
            else:
                point[name] = trial.suggest_int(name, 0, last)
        return point

    def tell(self, points, objectives):
        for trial, value in zip(self.asked, objectives, strict=True):
            if value is None:
                self.study.tell(trial, state=self.pruned)
            else:
                self.study.tell(trial, value)


METHODS = {"random": Random, "deephyper": DeepHyper, "tpe": Tpe}


def run(task):
    table, space, method, parallel, seed, cap = task
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    search = METHODS[method](table, seed, parallel)
    trials, distinct = 0, set()
    while trials < cap:
        points = search.ask(parallel)
        objectives = [table.objective(point) for point in points]
        for point, objective in zip(points, objectives, strict=True):
            trials += 1
            distinct.add(tuple(point.values()))
            if objective is not None and objective >= table.enough:
                return [space, method, parallel, seed, cap, trials, len(distinct), 1]
        search.tell(points, objectives)
    return [space, method, parallel, seed, cap, cap, len(distinct), 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--spaces", default="")
    parser.add_argument("--parallel", default="1,4")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--cap", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    done = set()
    if arguments.runs.exists():
        with open(arguments.runs, newline="") as file:
            done = {tuple(row[name] for name in COLUMNS[:5]) for row in csv.DictReader(file)}
    else:
        arguments.runs.write_text(",".join(COLUMNS) + "\n")
    folders = sorted(path.parent for path in arguments.folder.glob("*/space.toml"))
    chosen = arguments.spaces.split(",") if arguments.spaces else [folder.name for folder in folders]
    tables = {name: Table(arguments.folder / name) for name in chosen}
    # Seeds in the outer loop: an interrupted comparison has some runs of everything.
    tasks = [(tables[space], space, method, int(parallel), seed, arguments.cap)
             for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds) for space in chosen for method in arguments.methods.split(",")
             for parallel in arguments.parallel.split(",")
             if (space, method, parallel, str(seed), str(arguments.cap)) not in done]
    with multiprocessing.Pool(arguments.jobs) as pool, open(arguments.runs, "a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for row in pool.imap_unordered(run, tasks):
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
