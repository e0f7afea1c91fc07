"""Processors without AVX-512, and without AVX2: the kernels' tests pass, and training has the losses of this processor.

    without_avx_test.py BUILD_FOLDER

The programs run on emulated processors (qemu), Intel's of 2008 (SSE4.2) and of 2013 (AVX2). The tests that take longest there are left
out; of the comparisons with PyTorch those of fp32 stay. Exits with 77 where qemu-x86_64 is missing.
"""
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BUILD = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from commands_test import SOURCE, TINY, prepare_corpus  # noqa: E402
from forecast_test import MODEL, WRITE_FIELDS, prepare, python  # noqa: E402

PROCESSORS = {"without AVX2": "Nehalem", "without AVX-512": "Haswell"}
LEFT_OUT = "CutCrossEntropy*:VocabularyLoss.NeverHolds*:BlockCodes.MeanOf*:Types/OpsAgainstPyTorch.*/Half:Types/OpsAgainstPyTorch.*/BFloat16:Types/JointAttention*:Types/OwnProducts*"
CLOSE = 2e-4  # of losses, which four steps of fp32 part
WATER = """3
energy=-1.0 Properties=species:S:1:pos:R:3:forces:R:3
O 0.0 0.0 0.1 0.1 0.0 0.0
H 0.0 0.8 -0.5 0.0 -0.1 0.0
H 0.0 -0.8 -0.5 -0.1 0.1 0.0
"""
GRAPHS = """
[model]
family = "gnn"
conv = "painn"
layers = 2
width = 20
radius = 4.0
[[model.outputs]]
name = "energy"
head = "atomwise"
layers = 1
[[model.outputs]]
name = "forces"
derivative_of = "energy"
[data]
train = ["water"]
[train]
global_batch = 2
steps = 4
threads = 1
[optimizer]
learning_rate = 1e-3
[checkpoint]
folder = "run"
"""


def run(command, folder, processor=None):
    emulated = ["qemu-x86_64", "-cpu", processor] if processor else []
    return subprocess.run([*emulated, *map(str, command)], cwd=folder, capture_output=True, text=True, errors="replace",
                          env=os.environ | {"OMP_NUM_THREADS": "1"})  # fmt: skip


class WithoutAvx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def losses(self, name, processor=None):
        output = self.folder / f"{name}_{processor}"
        done = run([BUILD / "terrace", "train", f"{name}.toml", "--set", f"checkpoint.folder={output}"], self.folder, processor)
        self.assertEqual(done.returncode, 0, done.stderr)
        steps = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        return [step["loss"] for step in steps if "loss" in step]

    def check_training(self, name, text):
        (self.folder / f"{name}.toml").write_text(text)
        here = self.losses(name)
        self.assertEqual(len(here), 4)
        for what, processor in PROCESSORS.items():
            with self.subTest(what):
                for there, own in zip(self.losses(name, processor), here, strict=True):
                    self.assertAlmostEqual(there, own, delta=CLOSE * abs(own))

    def test_the_kernels_tests_pass(self):
        for what, processor in PROCESSORS.items():
            with self.subTest(what):
                done = run([BUILD / "test_ops", f"--gtest_filter=-{LEFT_OUT}"], SOURCE, processor)
                self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-1000:])
                self.assertIn("[  PASSED  ]", done.stdout)

    def test_language_models_have_the_losses_of_this_processor(self):
        prepare_corpus(self.folder)
        self.check_training("language", TINY)

    def test_graph_networks_have_the_losses_of_this_processor(self):
        (self.folder / "water.xyz").write_text(WATER * 8)
        done = run([BUILD / "terrace", "data", "prepare", "water.xyz", "--kind", "graphs", "--output", "water"], self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_training("graphs", GRAPHS)

    def test_weather_transformers_have_the_losses_of_this_processor(self):
        python(WRITE_FIELDS, "fields.in", 6, "u", folder=self.folder)
        prepare(self.folder, "fields.in", "fields")
        self.check_training("weather", MODEL.replace("steps = 12", "steps = 4"))


if __name__ == "__main__":
    if platform.machine() != "x86_64" or shutil.which("qemu-x86_64") is None:
        print("qemu-x86_64 is not installed; tools/setup --test installs it")
        sys.exit(77)
    unittest.main()
