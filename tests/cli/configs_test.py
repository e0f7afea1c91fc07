"""Tests that each configuration of configs/ starts on the machine that its first lines name, by the command that stands there; and
that those for one machine of one's own begin to train, as far as train --check goes."""
import pathlib
import random
import re
import shlex
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from commands_test import SOURCE, CommandTest, prepare_corpus, terrace  # noqa: E402

CONFIGS = sorted(path.name for path in (SOURCE / "configs").glob("*.toml"))


def write_molecules(path):
    """Sixty molecules of hydrogen, carbon and oxygen with energies and forces that mean nothing."""
    random.seed(1)
    lines = []
    for _ in range(60):
        elements = random.choice(("HHO", "CHHHH", "COHHH"))
        lines += [str(len(elements)), f"energy={random.uniform(-9, -3):.4f} Properties=species:S:1:pos:R:3:forces:R:3"]
        for number, element in enumerate(elements):
            numbers = [number + 0.3 * random.random(), *(random.random() for _ in range(2)), *(random.uniform(-0.5, 0.5) for _ in range(3))]
            lines.append(" ".join([element, *(f"{number:.4f}" for number in numbers)]))
    path.write_text("\n".join(lines) + "\n")


class Configurations(CommandTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        (cls.folder / "configs").symlink_to(SOURCE / "configs")
        write_molecules(cls.folder / "some.xyz")
        for prefix in ("data/molecules", "data/demo/molecules"):
            made = terrace("data", "prepare", "some.xyz", "--kind", "graphs", "--output", prefix, "--split", "0.6,0.2,0.2", folder=cls.folder)
            assert made.returncode == 0, made.stderr

    def test_each_starts_by_the_command_in_its_first_lines(self):
        launched = 0
        for name in CONFIGS:
            text = (SOURCE / "configs" / name).read_text()
            commands = re.findall(rf"^# terrace ((?:launch|plan) configs/{re.escape(name)}(?: .*)?)$", text.split("\n[")[0], re.M)
            self.assertTrue(commands, f"configs/{name} does not say by what command it starts")
            for command in commands:
                with self.subTest(command):
                    launched += command.startswith("launch")
                    self.expect(0, terrace(*shlex.split(command), folder=self.folder))
        self.assertGreater(launched, 10)

    def test_those_of_language_models_start_on_each_number_of_gpus_of_a_node_that_holds_them(self):
        for name in (name for name in CONFIGS if name.startswith("gpt2")):
            for devices in (1, 2, 4, 8):
                with self.subTest(f"{name} on {devices}"):
                    self.expect(0, terrace("plan", f"configs/{name}", "--machine", "dgx-h100", "--devices", devices, folder=self.folder))

    def test_those_for_a_machine_of_ones_own_begin_to_train(self):
        prepare_corpus(self.folder)
        text = ("--set", 'data.train=["corpus"]', "--set", "data.tokenizer=tokenizer.model")
        for name, more in (("painn", ()), ("molecules", ()), ("tiny", text), ("demo", ("--ranks", 4, "--set", "train.precision=fp32", *text))):
            with self.subTest(name):
                self.expect(0, terrace("train", f"configs/{name}.toml", "--check", "--no-doctor", *more, folder=self.folder))


if __name__ == "__main__":
    unittest.main()
