"""PaiNN learns energies and forces of 5,000 molecules, beside the same network in SchNetPack at equal steps, and five say how sure they are.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python -m pip install --no-deps --target .deps/graph_peers -r bench/gnn/requirements.txt
    .deps/python/bin/python bench/molecules/run.py [--folder data/bench] [--threads 2] [--no-peer] [--output FILE.md] [section.key=value ...]

Makes structures of a Debian package's molecules (tools/molecules), computes energies and forces of 5,000 with GFN2-xTB
(tools/label_molecules), and parts them 80/10/10 so that no formula is in two parts, each where it is not there yet. Then trains molecules.toml
with three seeds, SchNetPack's network (peer.py) with three, for the same number of steps, and five members of an ensemble for LONGER times as
many: sooner they make the same errors, of which their spread says little. The table has the mean absolute errors of the test part, of energies
for each atom and of each component of forces, beside a number for each element fitted to the training part and beside no force; and how the
spread of the five fits their errors. Exits with 1 where a bar of BARS is missed. What is finished is not repeated.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tomllib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(1, str(HERE.parent / "step"))
from comparison import machine, table  # noqa: E402
from peer import Molecules, fitted_to_elements  # noqa: E402

TERRACE = ROOT / "build/release/terrace"
CONFIG = HERE / "molecules.toml"
SEEDS, MEMBERS, LONGER = 3, 5, 3
# Errors over those of SchNetPack plus one standard error, over the fit to elements and over no force; of the five members'
# spread after one scale the miscalibration area, at most, and the rank correlation with the errors, at least.
BARS = {"peer": 1.03, "baseline": 0.5, "area": 0.10, "correlation": 0.3}
OUTPUTS = ("energy", "forces")
UNITS = {"energy": "meV an atom", "forces": "meV/angstrom"}


def run(command, threads=1, **options):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    return subprocess.run(list(map(str, command)), cwd=ROOT, env=environment, check=True, text=True, **options).stdout


def make_data(folder):
    molecules, labelled, prepared = folder / "molecules.xyz", folder / "labelled.xyz", folder / "molecules"
    folder.mkdir(parents=True, exist_ok=True)
    if not molecules.exists():
        run([ROOT / "tools/molecules", molecules], stdout=sys.stderr)
    if not labelled.exists():
        run([ROOT / "tools/label_molecules", molecules, labelled, "--count", 5000, "--most-atoms", 60,
             "--elements", "H,C,N,O,F,P,S,Cl,Br"], stdout=sys.stderr)  # fmt: skip
    if not prepared.with_suffix(".json").exists():
        run([TERRACE, "data", "prepare", labelled, "--kind", "graphs", "--output", prepared, "--split", "0.8,0.1,0.1",
             "--split-by", "composition", "--units", "energy=eV,forces=eV/angstrom", "--labels", "energy,forces"],
            stdout=sys.stderr)  # fmt: skip
    return prepared


def trained(folder, prepared, members, settings, threads):
    """The folder of so many members."""
    settings = [f'data.train=["{prepared}"]', f"train.threads={threads}", *settings]
    run([TERRACE, "ensemble", CONFIG, "--seeds", members, "--ranks", 1, "--output", folder,
         *(word for setting in settings for word in ("--set", setting))], threads, stdout=sys.stderr)  # fmt: skip
    return folder


def judged(models, prepared):
    return json.loads(run([TERRACE, "predict", models, "--data", prepared, "--json"], stdout=subprocess.PIPE))["outputs"]


def errors_of_peer(folder, prepared, steps, seed, threads):
    output = folder / f"peer_{steps}_{seed}.json"
    if not output.exists():
        run([sys.executable, HERE / "peer.py", CONFIG, prepared, "--steps", steps, "--seed", seed, "--output", output], threads)
    return json.loads(output.read_text())


def baselines(prepared):
    molecules = Molecules(prepared)
    of_elements = fitted_to_elements(molecules)
    energies, shares = molecules.of_atoms(molecules.test)
    forces = molecules.forces[molecules.rows_of(molecules.test)]
    return {"energy": float(np.abs(shares @ of_elements - energies).mean()), "forces": float(np.abs(forces).mean())}


def spread(values):
    return f"{1e3 * statistics.mean(values):.1f} ({', '.join(f'{1e3 * value:.1f}' for value in values)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="section.key=value of terrace's configuration")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "data/bench")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    steps = tomllib.loads(CONFIG.read_text())["train"]["steps"]
    for setting in options.settings:
        if setting.startswith("train.steps="):
            steps = int(setting.partition("=")[2])
    folder = options.folder.resolve()
    prepared = make_data(folder)
    equal = trained(folder / f"seeds_{steps}", prepared, SEEDS, [*options.settings, f"train.steps={steps}"], options.threads)
    longer = trained(folder / f"five_{LONGER * steps}", prepared, MEMBERS, [*options.settings, f"train.steps={LONGER * steps}"], options.threads)
    ours = [judged(equal / f"member_{seed}", prepared) for seed in range(1, SEEDS + 1)]
    five, base = judged(longer, prepared), baselines(prepared)
    peers = [] if options.no_peer else [errors_of_peer(folder, prepared, steps, seed, options.threads) for seed in range(1, SEEDS + 1)]
    rows, spreads, missed = [], [], []
    for name in OUTPUTS:
        own = [one[name]["mae"] for one in ours]
        ratio = statistics.mean(own) / base[name]
        row = [f"{name}, {UNITS[name]}", spread(own), f"{1e3 * base[name]:.1f}", f"{ratio:.2f}"]
        if ratio > BARS["baseline"]:
            missed.append(f"{name}: {ratio:.2f} of the baseline, at most {BARS['baseline']}")
        if peers:
            others = [one[name] for one in peers]
            bound = BARS["peer"] * statistics.mean(others) + statistics.stdev(others) / math.sqrt(SEEDS)
            row += [spread(others), f"{statistics.mean(own) / statistics.mean(others):.2f}"]
            if statistics.mean(own) > bound:
                missed.append(f"{name}: {1e3 * statistics.mean(own):.1f} beside the peer's {1e3 * bound:.1f} at most")
        rows.append(row)
        before, after = five[name], five[name]["scaled"]
        area, correlation = after["miscalibration_area"], after["spearman"]
        spreads.append([name, f"{1e3 * before['mae']:.1f}", f"{before['miscalibration_area']:.3f}", f"{area:.3f}",
                        f"{before['ence']:.2f}", f"{after['ence']:.2f}", f"{correlation:.2f}"])  # fmt: skip
        if area > BARS["area"]:
            missed.append(f"{name}: area {area:.3f}, at most {BARS['area']}")
        if correlation < BARS["correlation"]:
            missed.append(f"{name}: rank correlation {correlation:.2f}, at least {BARS['correlation']}")
    headings = ["error", f"terrace ({SEEDS} seeds)", "fit to elements, no force", "ours to it"] + (["SchNetPack", "ours to it"] if peers else [])
    text = (f"{machine()}; {steps} steps, and {LONGER * steps} of the five members\n\n{table(headings, rows)}\n"
            + table(["five members", "error of the mean", "area", "after one scale", "ENCE", "after", "rank correlation"], spreads))
    print(text)
    if options.output:
        options.output.write_text(text)
    if missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
