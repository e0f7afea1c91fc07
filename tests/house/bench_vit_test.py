"""bench/vit/compare.py runs on one and on two ranks, and its trainers train the same network: it has as many parameters."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".deps/python/bin/python"


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=500)


class Comparison(unittest.TestCase):
    def test_both_have_the_same_parameters(self):
        program = """
import sys
sys.path.insert(0, "bench/vit")
from network import Climax
from weather_shapes import NAMED
shape = NAMED["small"]
open(sys.argv[1], "w").write(shape.config("unread", "fp32", "unused"))
print(sum(parameter.numel() for parameter in Climax(shape, fused=True).parameters()))
"""
        with tempfile.NamedTemporaryFile(suffix=".toml") as config:
            counted = subprocess.run([PYTHON, "-c", program, config.name], capture_output=True, text=True, cwd=ROOT, timeout=500)
            self.assertEqual(counted.returncode, 0, counted.stderr)
            plan = output_of(ROOT / "build/release/terrace", "plan", config.name, "--json")
        self.assertEqual(json.loads(plan.stdout)["parameters"], int(counted.stdout), plan.stderr)

    def test_runs_on_one_and_two_ranks(self):
        result = output_of(PYTHON, ROOT / "bench/vit/compare.py", "--workloads", "small", "--precisions", "bf16", "--peers",
                           "eager tuned,fsdp2", "--rounds", "1", "--steps", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.stdout.splitlines() if line.startswith("| small")]
        self.assertEqual([(row[3], row[5]) for row in rows], [("1", "eager tuned"), ("2", "fsdp2")])
        for row in rows:
            self.assertGreater(float(row[4]), 0)
            # Nothing is learned yet, and the targets have a variance of one.
            for loss in row[10].split(","):
                self.assertAlmostEqual(float(loss), 1, delta=0.2)


if __name__ == "__main__":
    if not (ROOT / ".deps/timm").is_dir():
        print("skipped: timm is not installed in .deps/timm; bench/vit/network.py says how")
        sys.exit(77)
    unittest.main()
