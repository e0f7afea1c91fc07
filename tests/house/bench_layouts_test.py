"""The programs of bench/layouts run on small models, and their figures fit together.

usage: bench_layouts_test.py FOLDER, which has the programs"""
import pathlib
import subprocess
import sys
import unittest

FOLDER = pathlib.Path(sys.argv.pop())


def output_of(program, *arguments):
    command = [FOLDER / f"bench_layouts_{program}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=500).stdout


def row(text, first):
    """The cells of a table's line that begins so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} "))
    return [cell.strip() for cell in line.split("|")[1:-1]]


class Programs(unittest.TestCase):
    def test_a_pipeline_takes_no_less_than_its_lists_allow(self):
        text = output_of("pipeline_efficiency", "1", "1", "model.width=64")
        for schedule in ("1f1b", "zb-h1"):
            _, allowed, took, share, whole, _ = row(text, schedule)
            self.assertLessEqual(float(allowed), float(took) + 1e-4)
            self.assertLessEqual(float(took), float(whole) + 1e-4)
            # A pipeline that computes the eight micro-batches of its two stages one in turn would be half as fast.
            self.assertTrue(0.3 < float(share.split()[0]) <= 1.0, share)

    def test_the_executor_has_a_cost(self):
        words = output_of("executor_cost", "1", "5").split()
        self.assertEqual(words[1:4], ["us", "an", "instruction"])
        self.assertLess(abs(float(words[0])), 10_000)  # on a busy machine the difference may be below 0

    def test_the_memory_of_cut_weights_is_half(self):
        small = ("model.layers=2", "model.width=256")
        whole, cut = (row(output_of("memory", sharding, *small), sharding) for sharding in ("zero1", "zero3"))
        weights, gradients, optimizer = 2, 3, 4  # columns, in MiB
        for column, parts in ((weights, 2), (gradients, 2), (optimizer, 1)):
            self.assertGreater(float(whole[column]), 10)
            self.assertAlmostEqual(float(whole[column]) / parts, float(cut[column]), delta=1)


if __name__ == "__main__":
    unittest.main()
