"""Judges what ./demo weather left in a run's folder: a page of scores, and a model whose forecasts of winds have an error in m/s below
that of persistence, as a few steps of training reach."""
import json
import pathlib
import subprocess
import sys


def main():
    terrace, run = sys.argv[1:]
    printed = subprocess.run([terrace, "score", run, "--split", "test", "--json"], check=True, capture_output=True, text=True)
    problems = [] if (pathlib.Path(run) / "score.html").exists() else [f"{run}/score.html does not exist"]
    for name, scores in json.loads(printed.stdout)["variables"].items():
        print(f"{name}: {scores['rmse']:.3f} {scores['units']}, persistence {scores['persistence_rmse']:.3f}")
        if not 0.5 < scores["rmse"] < scores["persistence_rmse"]:
            problems.append(f"the error of {name} is not below that of persistence")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
