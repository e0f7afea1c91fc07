"""bench/step/compare.py runs, and its trainers do the same work: their losses agree."""
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Comparison(unittest.TestCase):
    def test_ours_and_pytorchs_losses_agree(self):
        # Without AVX-512 a step in bf16 takes minutes.
        precision = "bf16" if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text() else "fp32"
        command = [ROOT / ".deps/python/bin/python", ROOT / "bench/step/compare.py", "--workloads", "B", "--precisions", precision,
                   "--peers", "eager", "--rounds", "1", "--steps", "1"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=500)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.stdout.splitlines() if line.startswith("| B")]
        self.assertEqual([row[2] for row in rows], ["terrace", "eager"])
        for row in rows:
            self.assertGreater(float(row[3]), 0)
        losses = [[float(loss) for loss in row[10].split()] for row in rows]
        # Other random weights and other batches of random tokens, all near ln 8192.
        for ours, theirs in zip(*losses):
            self.assertAlmostEqual(ours, theirs, delta=0.05)


if __name__ == "__main__":
    unittest.main()
