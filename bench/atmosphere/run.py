"""A vision transformer learns the weather of a simulated atmosphere, beside the same network in PyTorch given the same time.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/atmosphere/run.py [--threads 2] [--judge validation] [--data FOLDER] [--output FILE.md] [section.key=value ...]

Makes an environment of its own for the package dinosaur-dycore (.deps/atmosphere), six-hourly fields of 1,500 days of the
Held-Suarez test case (make_fields.py, ten minutes of a core), and a dataset of three parts in the order of time: training, validation
(the ninth tenth), by which settings are chosen, and test (the last tenth), each where it is not there yet. Then trains atmosphere.toml
with the settings at the end, and the same network in PyTorch (peer.py) for as many seconds of processor time as terrace's training took.
The weight of an output in the loss is one over the mean square error of climatology within the training part. The table has the root mean
square errors of forecasts 72 hours ahead over the test part, in the units of the fields, beside climatology (the mean of the training
part, since this atmosphere has no seasons) and persistence (nothing changes). Exits with 1 where a bar of BARS is missed.

--judge validation takes the validation part in place of the test part, without PyTorch. A training that is finished is not repeated: its
results lie in the folder of its checkpoints. --seconds takes a processor time for the peer.
"""
import argparse
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tomllib

import netCDF4
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The 1,500 days in years of 365 are divided into 1,200 for training, 150 for validation and 150 for the test.
SPLITS = ["--train", "2001-01-01", "2004-04-15", "--validation", "2004-04-16", "2004-09-12",
          "--test", "2004-09-13", "2005-02-09"]  # fmt: skip
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
        run([terrace, "data", "prepare", fields, "--kind", "fields", "--output", prepared, "--harmonics", "0", *SPLITS],
            stdout=sys.stderr)
    return prepared


class Dataset:
    """What `terrace data prepare` wrote."""

    def __init__(self, prefix):
        self.about = json.loads(prefix.with_suffix(".json").read_text())
        self.names = [variable["name"] for variable in self.about["variables"]]
        self.steps = LEAD_HOURS * 3600 // self.about["step"]["seconds"]
        weights = np.cos(np.deg2rad(self.about["latitudes"]))[:, None]
        self.weights = weights / weights.mean()
        self.file = netCDF4.Dataset(prefix.with_suffix(".nc"))
        self.file.set_auto_mask(False)

    def deviation(self, name):
        return self.about["variables"][self.names.index(name)]["deviation"]

    def fields(self, name, split, earlier=0):
        """Those of a split, and so many times before it."""
        part = self.about["splits"][split]
        return self.file["fields"][max(0, part["first_time"] - earlier) : part["end_time"], self.names.index(name)]

    def climatology(self, name):
        """The mean of the training part, which is that of each month."""
        return self.file["climatology"][0, self.names.index(name)]

    def squares(self, difference):
        """The mean square of each field, weighted by latitude."""
        return (difference.astype(np.float64) ** 2 * self.weights).mean((1, 2))


def loss_weights(dataset, outputs):
    """As TOML: 1 over the mean square error of climatology in the training part, of normalised fields."""
    weights = []
    for name in outputs:
        error = dataset.squares(dataset.fields(name, "train") - dataset.climatology(name)).mean()
        weights.append(f"{name} = {dataset.deviation(name) ** 2 / error:.4g}")
    return "{" + ", ".join(weights) + "}"


def outputs_of_network():
    with open(HERE / "atmosphere.toml", "rb") as file:
        return tomllib.load(file)["model"]["outputs"]


def trained(terrace, prepared, threads, settings):
    """The processor seconds of terrace's training, the step and the errors of both parts by output, and the folder."""
    command = [terrace, "train", HERE / "atmosphere.toml"]
    weights = loss_weights(Dataset(prepared), outputs_of_network())
    for setting in [f"train.threads={threads}", f"data.fields={prepared}", f"model.loss_weights={weights}", *settings]:
        command += ["--set", setting]
    shown, _ = run([*command, "--print-config"], stdout=subprocess.PIPE)
    folder = ROOT / next(line.split('"')[1] for line in shown.splitlines() if line.startswith("folder = "))
    result = folder / "result.json"
    if not result.exists():
        _, seconds = run(command, threads, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        last = [line for line in lines if "validation_loss" in line][-1]
        # This command judges the test part of a dataset that is named.
        out, _ = run([terrace, "evaluate", folder, "--data", prepared, "--json"], threads, stdout=subprocess.PIPE)
        test = json.loads(out)
        errors = {"validation": {name: last[f"validation_rmse_{name}"] for name in outputs_of_network()},
                  "test": {name: test[f"rmse_{name}"] for name in outputs_of_network()}}  # fmt: skip
        result.write_text(json.dumps({"seconds": seconds, "step": last["step"], "rmse": errors}))
    return json.loads(result.read_text()), folder


def peer(folder, seconds, threads):
    result = folder / "peer.json"
    if not result.exists():
        command = [sys.executable, HERE / "peer.py", folder / "resolved.toml", seconds, threads]
        out, _ = run(command, threads, stdout=subprocess.PIPE)
        result.write_text(out.splitlines()[-1])
    return json.loads(result.read_text())


def simple_forecasts(dataset, split, outputs):
    """Errors of climatology and persistence by output over all times of a split, in the fields' units."""
    errors = {}
    for name in outputs:
        fields = dataset.fields(name, split, earlier=dataset.steps)
        targets = fields[dataset.steps :]
        errors[name] = [float(np.sqrt(dataset.squares(targets - other)).mean())
                        for other in (dataset.climatology(name), fields[: -dataset.steps])]  # fmt: skip
    return errors


def table_of(dataset, split, rmse, of_peer):
    """Lines of Markdown, and whether the bars are met. Errors `rmse` are in deviations. `of_peer` is None without PyTorch."""
    lines = ["| output | climatology | persistence | terrace | / climatology | / persistence | PyTorch | / climatology |",
             "|" + " --- |" * 8]  # fmt: skip
    of_climatology, of_persistence, of_pytorch = [], [], []
    for output, (climatology, persistence) in simple_forecasts(dataset, split, outputs_of_network()).items():
        own = rmse[output] * dataset.deviation(output)
        other = of_peer["rmse"][output] * dataset.deviation(output) if of_peer else float("nan")
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
    parser.add_argument("--judge", choices=["validation", "test"], default="test", help="the part of the times that is judged")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data/atmosphere", help="folder for fields.nc and what is made of it")
    parser.add_argument("--seconds", type=float, help="processor seconds for PyTorch")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("settings", nargs="*")
    options = parser.parse_args()
    prepared = make_data(options.terrace, options.data.resolve())
    result, folder = trained(options.terrace, prepared, options.threads, options.settings)
    if options.judge == "validation":
        print(table_of(Dataset(prepared), "validation", result["rmse"]["validation"], None)[0])
        return
    seconds = result["seconds"] if options.seconds is None else options.seconds
    of_peer = peer(folder, seconds, options.threads)
    table, is_met = table_of(Dataset(prepared), "test", result["rmse"]["test"], of_peer)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    text = (f"# A simulated atmosphere, 72 hours ahead\n\n`bench/atmosphere/run.py {' '.join(sys.argv[1:])}` at commit {commit}: "
            f"{result['step']} steps of terrace in {result['seconds']:.0f} s of processor time with {options.threads} "
            f"{'thread' if options.threads == 1 else 'threads'}, "
            f"{of_peer['steps']} steps of PyTorch in {seconds:.0f} s; {platform.system()} {platform.machine()}.\n\n{table}\n")  # fmt: skip
    print(text)
    if options.output:
        options.output.write_text(text)
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
