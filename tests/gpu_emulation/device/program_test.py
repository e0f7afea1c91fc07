"""Runs the whole program on emulated GPUs, a rank on each: layouts train the bits of plain data parallelism, and runs train as on the CPU.

The emulation's memory ends a process that reads or writes it as the host, so these runs also show that nothing of the program does.
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

MPIRUN, PROGRAM = sys.argv[1], sys.argv[2]
SOURCE = pathlib.Path(__file__).resolve().parents[3]
# A step of NCCL's stand-in begins late, so that who does not wait for it finds what was there before.
ENVIRONMENT = os.environ | {"EMULATED_GPU_REPORT": "1", "STAND_IN_DELAY_MICROSECONDS": "300"}
# Configuration, ranks, and keys of it.
LAYOUTS = [
    ("tiny", 2, "layout.sharding=zero1"), ("tiny", 2, "layout.sharding=zero3"),
    ("tiny", 2, "layout.sharding=zero3 layout.gather_type=int8 layout.reduce_type=int8 layout.update_type=fp8 train.precision=bf16"),
    ("tiny", 2, "layout.tensor=2"), ("tiny", 2, "layout.tensor=2 layout.sequence_parallel=true train.precision=bf16"),
    ("tiny", 2, "layout.pipeline=2"), ("tiny", 2, "layout.pipeline=2 layout.schedule=zb-h1 data.reset_at_documents=true"),
    ("tiny", 2, "layout.pipeline=2 layout.schedule=zb-v layout.chunks=2"), ("tiny", 4, "layout.tensor=2 layout.pipeline=2 layout.schedule=zb-h1"),
    ("tiny", 4, "layout.pipeline=2 layout.schedule=interleaved layout.chunks=2 train.precision=bf16"),
    ("tiny", 4, "layout.sharding=hybrid layout.shard_group=2"), ("tiny", 4, "layout.sharding=three_level layout.ranks_per_pair=1 layout.ranks_per_node=2"),
    ("tiny", 2, "model.norm=layernorm model.activation=gelu model.bias=true model.dropout=0.1 train.recompute=full train.precision=fp16"),
    ("vit-115m", 2, 'layout.sharding=zero1 model.variables=["2m_temperature","geopotential_50"]'), ("painn", 2, "layout.sharding=zero3"),
]  # fmt: skip
# Settings that make "tiny" smaller, to be quick.
SMALLER = ["model.vocabulary=128", "model.vocabulary_multiple=32", "model.sequence=16", "model.width=32", "model.ffn_width=48"]
TINY = """[model]
layers = 2
width = 32
heads = 4
sequence = 32
vocabulary = 600
[data]
train = ["corpus"]
tokenizer = "tokenizer.model"
[train]
global_batch = 4
steps = 4
evaluate_every = 4
evaluate_batches = 2
threads = 1
[optimizer]
learning_rate = 1e-3
decay_steps = 4
[checkpoint]
folder = "run"
"""
PAINN = """[model]
family = "gnn"
conv = "painn"
layers = 1
width = 16
radius = 3.0
[[model.outputs]]
name = "energy"
per_atom = true
[[model.outputs]]
name = "forces"
derivative_of = "energy"
[data]
train = ["molecules"]
[train]
global_batch = 4
micro_batch_sizes = {atoms = 60, edges = 1000}
steps = 2
evaluate_every = 0
threads = 1
[optimizer]
learning_rate = 1e-3
[checkpoint]
folder = "run"
"""


def run(folder, *command):
    done = subprocess.run([*map(str, command)], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, errors="surrogateescape", timeout=300)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def settings_of(keys):
    return [word for key in keys for word in ("--set", key)]


def molecules(folder):
    """Atoms near the points of a grid, with random energies and forces."""
    numbers = random.Random(1)

    def near(*values):
        return " ".join(f"{value + numbers.uniform(-0.3, 0.3):.3f}" for value in values)

    frames = [f"{atoms}\nProperties=species:S:1:pos:R:3:forces:R:3 energy={numbers.random():.3f}\n"
              + "".join(f"{numbers.choice('HCNO')} {near(1.5 * (n % 3), 1.5 * (n // 3 % 3), 1.5 * (n // 9))} {near(0, 0, 0)}\n"
                        for n in range(atoms)) for atoms in range(4, 24)]  # fmt: skip
    (folder / "molecules.xyz").write_text("".join(frames))
    run(folder, PROGRAM, "data", "prepare", "--kind", "graphs", "molecules.xyz", "--output", "molecules")


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    folder = OnEmulatedGpus.folder = pathlib.Path(scratch.name)
    run(folder, PROGRAM, "data", "prepare", SOURCE / "docs", "--output", "corpus", "--train-tokenizer", "tokenizer.model",
        "--vocabulary", 600, "--threads", 1)  # fmt: skip
    run(folder, PROGRAM, "data", "prepare", SOURCE / "docs/verify.md", "--output", "page", "--tokenizer", "tokenizer.model", "--threads", 1)
    molecules(folder)
    (folder / "tiny.toml").write_text(TINY)
    (folder / "painn.toml").write_text(PAINN)


class OnEmulatedGpus(unittest.TestCase):
    def on_gpus(self, ranks, *arguments):
        """The output of the command, of which each rank has computed on its GPU."""
        done = run(self.folder, MPIRUN, "-n", ranks, PROGRAM, *arguments)
        kernels = re.findall(r"emulated GPU: (\d+) kernels", done.stderr)
        self.assertEqual(len(kernels), ranks, done.stderr)
        self.assertGreater(min(map(int, kernels)), 0)
        return done.stdout

    def train(self, ranks, config, folder, *keys, device="cuda"):
        """The losses of a run, which goes on where the folder has one."""
        arguments = ["train", config, "--resume", "auto", *settings_of([f"checkpoint.folder={folder}", f"train.device={device}", *keys])]
        if device == "cuda":
            self.on_gpus(ranks, *arguments)
        else:
            run(self.folder, MPIRUN, "-n", ranks, PROGRAM, *arguments)
        lines = map(json.loads, (self.folder / folder / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if "loss" in line]

    def weights(self, folder, step):
        return {path.name: path.read_bytes() for path in (self.folder / folder / f"step_{step:08}").glob("*.safetensors")}

    def check_near(self, losses, others, tolerance):
        self.assertEqual(len(losses), len(others))
        for loss, other in zip(losses, others):
            self.assertAlmostEqual(loss, other, delta=tolerance * abs(other))

    def test_layouts_train_what_plain_data_parallelism_trains(self):
        for config, ranks, keys in LAYOUTS:
            with self.subTest(config=config, ranks=ranks, keys=keys):
                own = {"painn": ['data.train=["molecules"]'], "tiny": SMALLER}.get(config, [])
                settings = settings_of(["train.device=cuda", *own, *keys.split()])
                output = self.on_gpus(ranks, "verify", "--seeds", 2, SOURCE / f"configs/{config}.toml", *settings)
                self.assertTrue(output.endswith("holds\n"), output)

    def test_a_stopped_run_goes_on_with_the_same_bits(self):
        # Flash attention within documents, and weights in parts.
        keys = ["train.precision=bf16", "data.reset_at_documents=true", "layout.sharding=zero3"]
        losses = self.train(2, "tiny.toml", "whole", *keys)
        self.assertEqual(len(losses), 4)
        self.train(2, "tiny.toml", "stopped", *keys, "train.steps=2")
        self.assertEqual(self.train(2, "tiny.toml", "stopped", *keys), losses)
        self.assertEqual(len(self.weights("whole", 4)), 6)
        self.assertEqual(self.weights("stopped", 4), self.weights("whole", 4))
        # Losses of bf16 differ by about so much after four steps.
        self.check_near(losses, self.train(2, "tiny.toml", "on_cpu", *keys, device="cpu"), 1e-4)

    def test_ranks_that_cut_the_model_train_as_one(self):
        whole = self.train(1, "tiny.toml", "one_rank")
        keys = ["layout.tensor=2", "layout.pipeline=2", "layout.schedule=zb-h1"]
        self.check_near(self.train(4, "tiny.toml", "cut", *keys), whole, 1e-6)
        self.check_near(self.train(4, "tiny.toml", "cut_on_cpu", *keys, device="cpu"), whole, 1e-6)

    def test_a_network_of_atoms_learns_forces_as_on_the_cpu(self):
        losses = self.train(2, "painn.toml", "atoms")
        self.check_near(losses, self.train(2, "painn.toml", "atoms_on_cpu", device="cpu"), 1e-5)

    def trained(self):
        if not (self.folder / "text").exists():
            self.train(2, "tiny.toml", "text")
        return "text"

    def test_a_model_that_ranks_divide_continues_a_text(self):
        self.trained()
        (self.folder / "prompts").write_text("The\nA step\n")
        arguments = ["generate", "text", "--prompts", "prompts", "--temperature", "0", "--max-tokens", "6", "--device"]
        on_cpu = run(self.folder, PROGRAM, *arguments, "cpu").stdout
        self.assertEqual(self.on_gpus(2, *arguments, "cuda"), on_cpu)

    def test_a_model_is_evaluated_as_on_the_cpu(self):
        arguments = ["evaluate", self.trained(), "--data", "page", "--json", "--device"]
        on_cpu = json.loads(run(self.folder, PROGRAM, *arguments, "cpu").stdout)
        on_gpus = json.loads(self.on_gpus(2, *arguments, "cuda"))
        self.check_near([on_gpus["loss"]], [on_cpu["loss"]], 1e-5)

    def test_ranks_that_are_threads_are_refused_before_anything_is_computed(self):
        for way_out, *command in [('train.device = "cpu"', "train", "tiny.toml"), ('train.device = "cpu"', "train", "tiny.toml", "--check"),
                                  ("--device cpu", "evaluate", self.trained(), "--data", "corpus")]:  # fmt: skip
            done = subprocess.run([PROGRAM, *command, "--ranks", "2"], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("2 ranks that are threads of one process cannot use its GPU", done.stderr)
            self.assertIn(f"or use {way_out}", done.stderr)
            self.assertNotIn("kernels", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
