"""bench/gpu/families.py prepares molecules and runs on them and on fields, here with tiny networks on the CPU."""
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".deps/python/bin/python"
MOLECULES, BATCH = 10, 4


def families(*arguments):
    result = subprocess.run([PYTHON, ROOT / "bench/gpu/families.py", *arguments], capture_output=True, text=True, timeout=500)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout


def write_molecules(path):
    draw = random.Random(1)
    with path.open("w") as file:
        for _ in range(MOLECULES):
            file.write("6\nProperties=species:S:1:pos:R:3\n")
            for atom in range(6):
                file.write(f"{draw.choice('HCNO')} {1.4 * atom:.3f} {draw.uniform(-1, 1):.3f} {draw.uniform(-1, 1):.3f}\n")


class Comparison(unittest.TestCase):
    def rows(self, *workloads):
        """The rows of the table of trainers, and which of them have a profile."""
        with tempfile.TemporaryDirectory() as scratch:
            molecules = pathlib.Path(scratch) / "molecules.xyz"
            write_molecules(molecules)
            families("--prepare", f"{scratch}/data", "--molecules", molecules, "--graphs", str(MOLECULES), "--build", BUILD)
            text = families("--data", f"{scratch}/data", "--device", "cpu", "--workloads", ",".join(workloads), "--peers", "eager",
                            "--rounds", "1", "--steps", "1", "--build", BUILD)  # fmt: skip
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
        trainers = [row for row in rows if len(row) == 10 and row[0] in workloads]
        profiled = {(row[0], row[1]) for row in rows if len(row) == 6 and row[0] in workloads and float(row[3]) > 0}
        self.assertEqual(profiled, {(row[0], row[1]) for row in trainers})
        for row in trainers:
            self.assertGreater(float(row[2]), 0)
        return trainers

    def test_graph_networks_and_their_peers_run(self):
        rows = self.rows("painn-forces-tiny", "pna-tiny", "egnn-tiny")
        painn = [row[1] for row in rows if row[0] == "painn-forces-tiny"]
        self.assertIn(painn, (["terrace"], ["terrace", "schnetpack eager"]))  # SchNetPack is no part of the set-up
        self.assertEqual([row[1] for row in rows[len(painn):]], ["terrace", "geometric eager", "terrace", "plain eager"])

    @unittest.skipUnless((ROOT / ".deps/timm").is_dir(), "timm is not installed in .deps/timm; bench/vit/network.py says how")
    def test_a_vision_transformer_and_its_peer_have_the_same_loss(self):
        rows = self.rows("vit-tiny")
        self.assertEqual([row[1] for row in rows], ["terrace", "eager"])
        # Nothing is learned yet, and the targets have a variance of one.
        for row in rows:
            self.assertAlmostEqual(float(row[9].split()[0]), 1, delta=0.2)


if __name__ == "__main__":
    BUILD = sys.argv.pop()
    unittest.main()
