"""Runs a program that has a family of its own: every command knows it, though only its folder and the list name it."""

import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])


def run(folder, *arguments, code=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def waves(times):
    """Two variables on 4 x 6 places, a quarter of a wave apart, that move by one place every six hours."""
    lines = []
    for time in range(times):
        lines.append(" ".join(f"{(variable + 1) * math.cos((place % 6 + time) * math.pi / 3 + 0.3 * (place // 6) - variable * math.pi / 2):.5f}"
                              for variable in range(2) for place in range(24)))
    return "\n".join(lines)


CONFIG = """
[model]
family = "grid"
variables = ["u", "v"]
latitudes = 4
longitudes = 6
layers = 2
width = 16
weights = {v = 0.25}
[data]
fields = "waves"
leads = ["6h"]
[train]
global_batch = 8
steps = 150
evaluate_every = 50
device = "cpu"
threads = 1
[optimizer]
learning_rate = 1e-2
[checkpoint]
folder = "run"
"""

STUDY = """
[search]
evaluator = "train"
config = "grid.toml"
objective = "validation_skill"
devices = 1
direction = "maximize"
seed = 5
[parameters.model.width]
type = "ordered"
values = [4, 16]
[parameters.optimizer.learning_rate]
type = "ordered"
values = [1e-5, 1e-2]
"""


def prepare(folder):
    (folder / "waves.txt").write_text(waves(120))
    flags = ["--variables", "u,v", "--latitudes", 4, "--longitudes", 6, "--seconds", 21600]
    text = run(folder, "data", "prepare", "waves.txt", "--kind", "grid", "--output", "waves", *flags)
    assert "120 times of 2 variables" in text, text
    error = run(folder, "data", "prepare", "waves.txt", "--kind", "grid", "--output", "waves", *flags, "--vocabulary", 600,
                "--train-tokenizer", "t", code=2)
    assert "does not belong to --kind grid" in error, error
    error = run(folder, "data", "prepare", "waves.txt", "--output", "text", "--latitudes", 4, code=2)
    assert "--latitudes does not belong to --kind text" in error, error
    assert "--overwrite" in run(folder, "data", "prepare", "waves.txt", "--kind", "grid", "--output", "waves", *flags, code=2)


def train_and_evaluate(folder):
    (folder / "grid.toml").write_text(CONFIG)
    run(folder, "train", "grid.toml", "--ranks", 2, "--set", "layout.sharding=zero3")
    metrics = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    last = [line for line in metrics if "validation_skill" in line][-1]
    assert last["validation_skill"] > 0.9, last
    assert last["validation_rmse_u"] < 0.3, last
    # A run that stops and continues at another layout, and an evaluation of the checkpoint by itself and of other data.
    evaluated = json.loads(run(folder, "evaluate", "run", "--json"))
    assert abs(evaluated["skill"] - last["validation_skill"]) < 1e-4, (evaluated, last)
    other = json.loads(run(folder, "evaluate", "run", "--data", "waves", "--json"))
    assert other["skill"] > 0.9, other
    run(folder, "train", "grid.toml", "--ranks", 4, "--resume", "auto", "--set", "layout.tensor=2", "--set",
        "layout.pipeline=2", "--set", "train.steps=152")
    report = run(folder, "report", "run", "--text")
    for word in ("skill", "rmse_u", "places/s"):
        assert word in report, report
    error = run(folder, "generate", "run", "--prompt", "a", code=2)
    assert "grid" in error, error


def plan_verify_and_search(folder):
    plan = run(folder, "plan", "grid.toml", "--machine", "frontier", "--devices", 8, "--set", "layout.tensor=2")
    assert "places" in plan, plan
    run(folder, "verify", "grid.toml", "--ranks", 2, "--set", "layout.tensor=2")
    (folder / "study.toml").write_text(STUDY)
    (folder / "wrong.toml").write_text(STUDY.replace("validation_skill", "validation_skil"))
    error = run(folder, "search", "wrong.toml", "--trials", 2, code=2)
    assert 'use "validation_skill"' in error, error
    run(folder, "search", "study.toml", "--trials", 4, "--method", "exhaustive")
    with open(folder / "runs/study/results.csv") as table:
        rows = list(csv.DictReader(table))
    scores = {(row["p:model.width"], float(row["p:optimizer.learning_rate"])): float(row["objective"]) for row in rows}
    assert len(scores) == 4, rows
    best = max(scores, key=scores.get)
    assert best[1] == 1e-2, scores
    found = next((folder / "runs/study").glob("best*.toml")).read_text()
    assert f"width = {best[0]}" in found, found


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        train_and_evaluate(folder)
        plan_verify_and_search(folder)


if __name__ == "__main__":
    main()
