"""Tests that a launch whose ranks have different settings or files is refused with what differs on which rank."""
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import TERRACE, TINY, CommandTest, prepare_corpus, terrace  # noqa: E402
from ranks_test import ENVIRONMENT  # noqa: E402

ONE = ["-n", "1"]
RUN = TINY.replace('train = ["corpus"]', 'train = ["corpus", "more"]').replace("evaluate_every = 4\nevaluate_batches = 2\n", "")
# Settings that differ on the second rank, and the words of the message about each.
DIFFERENCES = (
    ("learning_rate = 1e-3", "learning_rate = 2e-3", "optimizer.learning_rate is 0.001 on rank 0, 0.002 on rank 1"),
    ("[optimizer]", "[optimizer]\nclip = 0.5", "optimizer.clip is 1.0 on rank 0, 0.5 on rank 1"),
    ("steps = 4", "steps = 4\nseed = 2", "train.seed is 1 on rank 0, 2 on rank 1"),
    ("steps = 4", "steps = 5", "train.steps is 4 on rank 0, 5 on rank 1"),
    ("steps = 4", 'steps = 4\nprecision = "bf16"', 'train.precision is "fp32" on rank 0, "bf16" on rank 1'),
    ('"more"]', '"more"]\nweights = [1.0, 3.0]', "data.weights is "),
    ('["corpus", "more"]', '["more", "corpus"]', 'data.train is ["corpus", "more"] on rank 0, ["more", "corpus"] on rank 1'),
    ("[checkpoint]", '[layout]\nsharding = "zero3"\n[checkpoint]', 'layout.sharding is "ddp" on rank 0, "zero3" on rank 1'),
    ('folder = "run"', 'folder = "elsewhere"', 'checkpoint.folder is "run" on rank 0, "elsewhere" on rank 1'),
    ("layers = 1", "layers = 2", "model.layers is 1 on rank 0, 2 on rank 1"),
)


class SameStart(CommandTest):
    def setUp(self):
        self.folder = self.scratch()
        prepare_corpus(self.folder)
        for suffix in (".bin", ".idx"):
            shutil.copy(self.folder / f"corpus{suffix}", self.folder / f"more{suffix}")
        (self.folder / "a.toml").write_text(RUN)

    def launch(self, *ranks):
        """Launches one rank with each command line."""
        words = []
        for rank in ranks:
            words += [*([":"] if words else []), *ONE, *rank]
        return subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", *words], cwd=self.folder, env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=120)

    def check_refused_once(self, result, text):
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count(text), 1, result.stderr)
        self.assertEqual(result.stderr.count("were not started with the same"), 1, result.stderr)
        self.assertEqual(list(self.folder.glob("*/step_*")), [])

    def test_configurations_that_differ_in_any_key(self):
        first = [TERRACE, "train", "a.toml"]
        for old, new, said in DIFFERENCES:
            with self.subTest(said):
                self.assertIn(old, RUN)
                (self.folder / "b.toml").write_text(RUN.replace(old, new, 1))
                self.check_refused_once(self.launch(first, [TERRACE, "train", "b.toml"]), said)

    def test_command_lines_that_differ(self):
        plain = [TERRACE, "train", "a.toml"]
        result = self.launch(plain, [*plain, "--resume", "auto"])
        self.check_refused_once(result, "--resume is not given on rank 0, auto on rank 1")
        result = self.launch([TERRACE, "verify", "a.toml"], [TERRACE, "verify", "a.toml", "--set", "optimizer.clip=2.0"])
        self.check_refused_once(result, "optimizer.clip is 1.0 on rank 0, 2.0 on rank 1")

    def test_files_of_the_same_name_that_hold_something_else(self):
        """Each rank has a folder of its own, as on the local disks of two machines."""
        other = self.folder / "other"
        other.mkdir()
        for path in [*self.folder.glob("*.*")]:
            shutil.copy(path, other / path.name)
        rank = [TERRACE, "train", "a.toml"]
        elsewhere = ["sh", "-c", 'cd other && exec "$0" "$@"', *rank]
        result = self.launch(rank, elsewhere)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("checkpoint.folder = \"run\" is another folder for rank 1 than for rank 0", result.stderr)
        (other / "tokenizer.model").write_bytes((other / "tokenizer.model").read_bytes() + b"\0")
        self.check_refused_once(self.launch(rank, elsewhere), 'the content of data.tokenizer "tokenizer.model" is ')
        shutil.copy(self.folder / "tokenizer.model", other / "tokenizer.model")
        tokens = bytearray((other / "more.bin").read_bytes())
        tokens[0] ^= 1  # of a large file only some places are compared, the first among them
        (other / "more.bin").write_bytes(tokens)
        self.check_refused_once(self.launch(rank, elsewhere), 'the content of data.train "more" is ')

    def test_ranks_that_agree_train(self):
        rank = [TERRACE, "train", "a.toml"]
        self.expect(0, self.launch(rank, rank))
        self.expect(0, terrace("generate", "run", "--max-tokens", 2, folder=self.folder))


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("same_start_test.py: skipped, mpirun is not found")
        sys.exit(77)
    unittest.main()
