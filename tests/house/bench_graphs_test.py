"""bench/molecules/run.py and bench/meshes/run.py train on small data that are there, judge all networks, and say which bars are missed."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
TERRACE = pathlib.Path(sys.argv.pop()).resolve() / "terrace"


def run(*command):
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=500)


def rows_of(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def chains(random):
    """Loose chains of hydrogen and carbon of several formulas, with an energy and forces that are drawn."""
    for number in range(60):
        symbols = "C" * (1 + number % 5) + "H" * (1 + number // 5 % 6)
        forces = random.normal(size=(len(symbols), 3))
        lines = [f"{symbol} {1.2 * k:f} {random.uniform(0, 0.3):f} 0 " + " ".join(f"{value:f}" for value in force)
                 for k, (symbol, force) in enumerate(zip(symbols, forces - forces.mean(0)))]
        about = f"energy={-len(symbols) + random.normal():f} Properties=species:S:1:pos:R:3:forces:R:3"
        yield "\n".join([str(len(symbols)), about, *lines])


def rings(random):
    """Point sets: 40 rings of 6 to 9 nodes, each with edges to the next and back."""
    sizes = 6 + np.arange(40) % 4
    angles = np.concatenate([2 * np.pi * np.arange(size) / size for size in sizes])
    edges = [np.stack([np.arange(size), (np.arange(size) + 1) % size]) for size in sizes]
    arrays = {"positions": 0.2 * np.stack([np.cos(angles), np.sin(angles)], 1), "first_node": np.cumsum([0, *sizes]),
              "first_edge": np.cumsum([0, *(2 * sizes)]),
              "edges": np.ascontiguousarray(np.concatenate([np.concatenate([one.T, one[::-1].T]) for one in edges]))}  # fmt: skip
    for name in ("log_diffusivity", "source", "edge", "edge_temperature", "temperature", "constant"):
        arrays["node/" + name] = random.normal(size=len(angles))
    return arrays


class Studies(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_of_molecules(self):
        for name in ("molecules.xyz", "labelled.xyz"):
            (self.folder / name).write_text("\n".join(chains(np.random.default_rng(1))) + "\n")
        has_peer = (ROOT / ".deps/graph_peers/schnetpack").is_dir()
        result = run(sys.executable, ROOT / "bench/molecules/run.py", "--folder", self.folder, "--threads", 1, "train.steps=2",
                     "optimizer.warmup_steps=1", *([] if has_peer else ["--no-peer"]))
        rows = rows_of(result.stdout)
        outputs = [row[0].split(",")[0] for row in rows if row[0].startswith(("energy", "forces"))]
        self.assertEqual(outputs, ["energy", "forces"] * 2, result.stderr)
        self.assertEqual(len(rows[0]), 6 if has_peer else 4)
        self.assertEqual(result.returncode, 1, "two steps miss every bar")
        self.assertIn("missed: energy: ", result.stderr)

    def test_of_meshes(self):
        np.savez(self.folder / "rings.npz", **rings(np.random.default_rng(1)))
        prepared = run(TERRACE, "data", "prepare", self.folder / "rings.npz", "--kind", "graphs", "--output", self.folder / "meshes",
                       "--least-distance", 0, "--split", "0.8,0.1,0.1")
        self.assertEqual(prepared.returncode, 0, prepared.stderr)
        result = run(sys.executable, ROOT / "bench/meshes/run.py", "--folder", self.folder, "--threads", 1, "train.steps=2",
                     "model.width=8", "model.layers=3", "optimizer.warmup_steps=1")
        rows = rows_of(result.stdout)
        self.assertEqual([row[0] for row in rows[-3:]], ["one diffusivity", "without pooling", "pooled every 2 layers"], result.stderr)
        self.assertEqual(result.returncode, 1, "two steps miss the bar")
        self.assertIn("of the error with one diffusivity, at most 0.33", result.stderr)


if __name__ == "__main__":
    unittest.main()
