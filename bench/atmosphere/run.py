"""A vision transformer learns the weather of a simulated atmosphere, beside the same network in PyTorch given the same time.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/atmosphere/run.py [--threads 2] [--data FOLDER] [--output FILE.md] [section.key=value ...]

Makes an environment of its own for the package dinosaur-dycore (.deps/atmosphere), six-hourly fields of 1,500 days of the
Held-Suarez test case (make_fields.py, ten minutes of a core), and a dataset whose last tenth is held out, each where it is not there
yet. Then trains atmosphere.toml with the settings at the end, and the same network in PyTorch (peer.py) for as many seconds of processor
time as terrace's training took. The table has the root mean square errors of forecasts 72 hours ahead over the held-out times, in the
units of the fields, beside climatology (the mean of the training part by month) and persistence (nothing changes). Exits with 1 where a
bar of BARS is missed.

A training that is finished is not repeated: its results lie in the folder of its checkpoints. --seconds takes a processor time for the peer.
"""
import argparse
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys

import netCDF4
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Of 1,500 days in years of 365: the last 150 are held out.
SPLITS = ["--train", "2001-01-01", "2004-09-12", "--test", "2004-09-13", "2005-02-09"]
LEAD_HOURS = 72
# Errors over those of climatology on average and for each output, over those of persistence for each, and over PyTorch's on average.
BARS = {"climatology": 0.80, "climatology of each": 0.90, "persistence of each": 0.68, "PyTorch": 1.0}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, threads=1, **options):
    """Runs a command; its output, and the processor seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env=environment, check=True, text=True, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def make_data(terrace, folder):
    """Returns the prefix of the dataset."""
    fields, prepared = folder / "fields.nc", folder / "prepared"
    if not fields.exists():
        environment = ROOT / ".deps/atmosphere"
        python = environment / "bin/python"
        if not (environment / "complete").exists():
            say("making an environment for dinosaur-dycore")
            run([sys.executable, "-m", "venv", environment])
            run([python, "-m", "pip", "install", "--quiet", "-r", HERE / "requirements.txt"])
            (environment / "complete").touch()
        folder.mkdir(parents=True, exist_ok=True)
        run([python, HERE / "make_fields.py", fields], stdout=sys.stderr)
    if not prepared.with_suffix(".json").exists():
        run([terrace, "data", "prepare", fields, "--kind", "fields", "--output", prepared, *SPLITS], stdout=sys.stderr)
    return prepared


def trained(terrace, prepared, threads, settings):
    """The last evaluation of terrace's training, its folder, and the processor seconds of the training."""
    command = [terrace, "train", HERE / "atmosphere.toml"]
    for setting in [f"train.threads={threads}", f"data.fields={prepared}", *settings]:
        command += ["--set", setting]
    shown, _ = run([*command, "--print-config"], stdout=subprocess.PIPE)
    folder = ROOT / next(line.split('"')[1] for line in shown.splitlines() if line.startswith("folder = "))
    result = folder / "result.json"
    if not result.exists():
        _, seconds = run(command, threads, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        last = [line for line in lines if "validation_loss" in line][-1]
        result.write_text(json.dumps({"seconds": seconds, "evaluation": last}))
    return json.loads(result.read_text()), folder


def peer(folder, seconds, threads):
    result = folder / "peer.json"
    if not result.exists():
        command = [sys.executable, HERE / "peer.py", folder / "resolved.toml", seconds, threads]
        out, _ = run(command, threads, stdout=subprocess.PIPE)
        result.write_text(out.splitlines()[-1])
    return json.loads(result.read_text())


def simple_forecasts(prepared, outputs):
    """Errors of climatology and persistence by output over all held-out starts, in the fields' units, and the deviations."""
    about = json.loads(prepared.with_suffix(".json").read_text())
    names = [variable["name"] for variable in about["variables"]]
    steps = LEAD_HOURS * 3600 // about["step"]["seconds"]
    first, end = about["splits"]["test"]["first_time"], about["splits"]["test"]["end_time"]
    weights = np.cos(np.deg2rad(about["latitudes"]))[:, None]
    weights = weights / weights.mean()
    dates = netCDF4.num2date(about["times"][first + steps : end], "seconds since 1970-01-01", about["calendar"])
    months = [date.month - 1 for date in dates]

    def error(difference):
        return float(np.sqrt((difference.astype(np.float64) ** 2 * weights).mean((1, 2))).mean())

    errors = {}
    with netCDF4.Dataset(prepared.with_suffix(".nc")) as file:
        file.set_auto_mask(False)
        for output in outputs:
            index = names.index(output)
            fields, climatology = file["fields"][first:end, index], file["climatology"][:, index]
            errors[output] = (error(fields[steps:] - climatology[months]), error(fields[steps:] - fields[:-steps]),
                              about["variables"][index]["deviation"])  # fmt: skip
    return errors


def table_of(prepared, evaluation, of_peer):
    outputs = list(of_peer["rmse"])
    lines = ["| output | climatology | persistence | terrace | / climatology | / persistence | PyTorch | / climatology |",
             "|" + " --- |" * 8]  # fmt: skip
    of_climatology, of_persistence, of_pytorch = [], [], []
    for output, (climatology, persistence, deviation) in simple_forecasts(prepared, outputs).items():
        own, other = evaluation[f"validation_rmse_{output}"] * deviation, of_peer["rmse"][output] * deviation
        of_climatology.append(own / climatology)
        of_persistence.append(own / persistence)
        of_pytorch.append(other / climatology)
        lines.append(f"| {output} | {climatology:.4g} | {persistence:.4g} | {own:.4g} | {own / climatology:.3f} | {own / persistence:.3f} | "
                     f"{other:.4g} | {other / climatology:.3f} |")  # fmt: skip
    mean, peers = np.mean(of_climatology), np.mean(of_pytorch)
    lines.append(f"| mean | | | | {mean:.3f} | {np.mean(of_persistence):.3f} | | {peers:.3f} |")
    reached = {"climatology": mean, "climatology of each": max(of_climatology), "persistence of each": max(of_persistence),
               "PyTorch": mean / peers}  # fmt: skip
    lines += ["", "| bar | at most | reached | met |", "|" + " --- |" * 4]
    lines += [f"| over {name} | {bar} | {reached[name]:.3f} | {'yes' if reached[name] <= bar else 'no'} |" for name, bar in BARS.items()]
    return "\n".join(lines), all(reached[name] <= bar for name, bar in BARS.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--terrace", type=pathlib.Path, default=ROOT / "build/release/terrace")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data/atmosphere", help="folder for fields.nc and what is made of it")
    parser.add_argument("--seconds", type=float, help="processor seconds for PyTorch")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("settings", nargs="*")
    options = parser.parse_args()
    prepared = make_data(options.terrace, options.data.resolve())
    result, folder = trained(options.terrace, prepared, options.threads, options.settings)
    seconds = result["seconds"] if options.seconds is None else options.seconds
    of_peer = peer(folder, seconds, options.threads)
    table, is_met = table_of(prepared, result["evaluation"], of_peer)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    text = (f"# A simulated atmosphere, 72 hours ahead\n\n`bench/atmosphere/run.py {' '.join(sys.argv[1:])}` at commit {commit}: "
            f"{result['evaluation']['step']} steps of terrace in {result['seconds']:.0f} s of processor time with {options.threads} "
            f"{'thread' if options.threads == 1 else 'threads'}, "
            f"{of_peer['steps']} steps of PyTorch in {seconds:.0f} s; {platform.system()} {platform.machine()}.\n\n{table}\n")  # fmt: skip
    print(text)
    if options.output:
        options.output.write_text(text)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
