"""bench/gpu/compare.py runs, here with a tiny model on the CPU; its trainers do the same work: their losses agree."""
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Comparison(unittest.TestCase):
    def test_ours_and_pytorchs_losses_agree_and_both_have_a_profile(self):
        command = [ROOT / ".deps/python/bin/python", ROOT / "bench/gpu/compare.py", "--device", "cpu", "--workloads", "tiny",
                   "--peers", "eager", "--rounds", "1", "--steps", "1", "--build", BUILD]  # fmt: skip
        result = subprocess.run(command, capture_output=True, text=True, timeout=500)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.stdout.splitlines() if line.startswith("| tiny")]
        trainers = [row for row in rows if len(row) == 9]
        self.assertEqual([row[1] for row in trainers], ["terrace", "eager"])
        losses = [[float(loss) for loss in row[8].split()] for row in trainers]
        # Other random weights and other batches of random tokens, all near ln 512.
        for ours, theirs in zip(*losses):
            self.assertAlmostEqual(ours, theirs, delta=0.15)
        profiled = {row[1] for row in rows if len(row) == 6 and float(row[3]) > 0}
        self.assertEqual(profiled, {"terrace", "eager"})


if __name__ == "__main__":
    BUILD = sys.argv.pop()
    unittest.main()
