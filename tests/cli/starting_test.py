"""Tests that commands of the built binary say what they do while they start, and end at once when they are asked to."""
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from commands_test import TERRACE, CommandTest, terrace

# The graphs have so many edges that counting them takes minutes.
CONFIG = """[model]
family = "gnn"
conv = "schnet"
layers = 1
width = 4
radius = 150.0

[[model.outputs]]
name = "energy"

[data]
train = ["crystals"]

[train]
global_batch = 2
micro_batch = 2
steps = 4

[optimizer]
learning_rate = 1e-3

[checkpoint]
folder = "run"
"""
STOPPED = 4  # the exit code


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    folder = Starting.folder = pathlib.Path(scratch.name)
    (folder / "run.toml").write_text(CONFIG)
    atoms = [f"Cu {x} {y} {z}" for x in range(4) for y in range(4) for z in range(4)]
    frame = [str(len(atoms)), 'Lattice="10 0 0 0 10 0 0 0 10" Properties=species:S:1:pos:R:3 energy=-1.0', *atoms]
    (folder / "crystals.xyz").write_text("\n".join(frame * 8) + "\n")
    for command in (["data", "prepare", "crystals.xyz", "--kind", "graphs", "--output", "crystals"],
                    ["train", "run.toml", "--set", "model.radius=3", "--set", "checkpoint.folder=small"]):
        result = terrace(*command, folder=folder)
        assert result.returncode == 0, result.stderr


class Starting(CommandTest):
    def stopped(self, number, wait, *arguments):
        """What a command says that gets a signal after so many seconds; it ends soon after, with the exit code of a stop."""
        child = subprocess.Popen([TERRACE, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        time.sleep(wait)
        while child.poll() is None and not self.catches(child.pid, number):
            time.sleep(0.02)
        self.assertIsNone(child.poll(), "it is still starting")
        asked = time.monotonic()
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, STOPPED, said)
        # The watch grants two seconds; the rest is for a machine with other work.
        self.assertLess(time.monotonic() - asked, 15)
        return said

    @staticmethod
    def catches(program, number):
        """Whether the program has begun to look for the signal."""
        status = pathlib.Path(f"/proc/{program}/status").read_text()
        return int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1

    def test_a_run_that_counts_edges_says_so_after_two_seconds_and_ends_when_asked_to(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            said = self.stopped(number, 5, "train", "run.toml", "--no-doctor")
            self.assertRegex(said, r"counting edges of crystals: .* so far")
            self.assertIn("error: stopped on request", said)

    def test_checks_plans_and_simulations_end_too(self):
        for command in (["train", "run.toml", "--check"], ["plan", "run.toml", "--machine", "laptop"], ["simulate", "run.toml", "--machine", "laptop"]):
            with self.subTest(command[0]):
                self.assertIn("counting edges", self.stopped(signal.SIGTERM, 4, *command))

    def test_predictions_of_large_radius_end_too(self):
        wide = self.folder / "wide.xyz"
        atoms = 40 ** 3
        wide.write_text(f"{atoms}\nProperties=species:S:1:pos:R:3\n" + "".join(
            f"Cu {0.9 * x:.1f} {0.9 * y:.1f} {0.9 * z:.1f}\n" for x in range(40) for y in range(40) for z in range(40)))
        self.stopped(signal.SIGTERM, 0.3, "predict", "small", "--data", "wide.xyz")


if __name__ == "__main__":
    unittest.main()
