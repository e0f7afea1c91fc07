"""Judges what ./demo materials left in a run's folder: structures with predicted forces, whose errors are below those of forces of
zero and of which the two members differ, as a few steps of training reach."""
import json
import pathlib
import re
import subprocess
import sys


def mean_force(path):
    """The mean size of a component of the labels."""
    total, count, lines = 0.0, 0, path.read_text().splitlines()
    at = 0
    while at < len(lines):
        atoms = int(lines[at])
        columns = re.search(r"Properties=(\S+)", lines[at + 1])[1].split(":")
        place = first = 0
        for name, kind, width in zip(columns[::3], columns[1::3], columns[2::3]):
            first = place if name == "forces_label" else first
            place += int(width)
        for line in lines[at + 2:at + 2 + atoms]:
            for value in line.split()[first:first + 3]:
                total, count = total + abs(float(value)), count + 1
        at += 2 + atoms
    return total / count


def main():
    terrace, run = sys.argv[1:]
    printed = subprocess.run([terrace, "predict", run, "--data", "data/demo/molecules", "--json"], check=True, capture_output=True,
                             text=True)
    forces, zero = json.loads(printed.stdout)["outputs"]["forces"], mean_force(pathlib.Path(run) / "predicted.xyz")
    print(f"forces: {forces['mae']:.3f} eV/angstrom, forces of zero {zero:.3f}; spread {forces['sharpness']:.3f}")
    if 0.01 * zero < forces["mae"] < 0.8 * zero and forces["sharpness"] > 0:
        return 0
    print("the error is not below that of forces of zero, or the members do not differ")
    return 1


if __name__ == "__main__":
    sys.exit(main())
