"""bench/slow_link/compare.py runs on a small model, and the bytes that cross its link are those of the formulas.

Counts as skipped where the link cannot be made. usage: bench_slow_link_test.py"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINE = """
name = "two-nodes"

[device]
name = "a core"
memory = "4 GB"
memory_bandwidth = "5 GB/s"
kernel_time = "2 us"
launch_time = "0 us"

[device.fp32]
peak = "50 GFLOP/s"
achievable = "40 GFLOP/s"

[[tiers]]
name = "node"
devices = 2
link_bandwidth = "2 GB/s"
latency = "5 us"

[[tiers]]
name = "network"
devices = 4
link_bandwidth = "200 MB/s"
devices_per_link = 2
latency = "50 us"
"""
ROWS = ["zero3", "zero3, int8 and int4", "ZeRO++'s setting", "three levels", "three levels, int8 and int4",
        "three levels, int8 and int4 between nodes", "by rails"]  # fmt: skip

OUTER = ["gradients in every step, bf16", ROWS[5], "every 4 steps, fp32", "every 4 steps, int8"]


def tables(text):
    """Rows of cells, by the number of the table."""
    found = [[]]
    for line in text.splitlines():
        if line.startswith("| "):
            found[-1].append([cell.strip() for cell in line.split("|")[1:-1]])
        elif found[-1]:
            found.append([])
    # The second line of a table has dashes.
    return [rows[2:] for rows in found if rows]


class Comparison(unittest.TestCase):
    def test_the_bytes_on_the_link_are_those_of_the_formulas(self):
        with tempfile.TemporaryDirectory() as folder:
            described = pathlib.Path(folder) / "machine.toml"
            described.write_text(MACHINE)
            command = [ROOT / ".deps/python/bin/python", ROOT / "bench/slow_link/compare.py", "--quick", "--machine", described,
                       "--row", f"{ROWS[-1]}=layout.sharding=zero3 layout.route=rails"]  # fmt: skip
            result = subprocess.run(command, capture_output=True, text=True, timeout=500)
        if result.returncode == 77:
            print(result.stderr)
            sys.exit(77)
        self.assertEqual(result.returncode, 0, result.stderr)
        links, sweep, overlap, outer = tables(result.stdout)
        self.assertEqual([row[2] for row in links], ROWS + ROWS[2:])
        for row in links:
            sent, (ring, direct) = float(row[9]), (float(number) for number in row[10].split(","))
            # Headers of packets and messages, and words that ranks agree on, come on top; a gather may go either way.
            self.assertGreater(sent, 0.95 * ring - 0.1, row)
            self.assertLess(sent, 1.15 * direct + 0.1, row)
        self.assertEqual([row[0] for row in sweep], ["200", "5000"])
        for row in sweep:
            for column in (4, 8):  # a prediction is a ratio of two steps
                self.assertGreater(float(row[column]), 0.5)
        # Fewer bytes save more on the slower link.
        self.assertGreater(float(sweep[0][8]), float(sweep[1][8]))
        self.assertEqual([row[:2] for row in overlap],
                         [[way, rate] for way in ("all that can overlaps", "nothing overlaps") for rate in ("200", "5000")])  # fmt: skip
        # A program that waits is predicted to take longer, and most with the setting that sends more.
        self.assertGreater(float(overlap[2][5]), float(overlap[0][5]))
        self.assertEqual([row[:2] for row in outer], [[rate, row] for rate in ("200", "5000") for row in OUTER])
        for row in outer:
            self.assertAlmostEqual(float(row[7]), float(row[8]), delta=1, msg=row)  # kB of four steps, rounded
        # An outer update in fp32 has twice the bytes of gradients in bf16, once in four steps; int8 has a quarter of them, and a scale for 256 values.
        every_step, _, in_fp32, in_int8 = (float(row[7]) for row in outer[:4])
        self.assertAlmostEqual(in_fp32 / every_step, 2 / 4, delta=0.01)
        self.assertAlmostEqual(in_int8 / in_fp32, (1 + 4 / 256) / 4, delta=0.01)


if __name__ == "__main__":
    unittest.main()
