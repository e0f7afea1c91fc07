"""Tests which files the ranks of a launch open when a run starts, as strace counts them."""
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import TERRACE, TINY, CommandTest, prepare_corpus  # noqa: E402
from ranks_test import ENVIRONMENT  # noqa: E402

SCRIPT = 'exec strace -f -qq -e trace=openat,newfstatat,statx -o opened.$OMPI_COMM_WORLD_RANK "$0" "$@"'


def can_trace():
    return shutil.which("strace") is not None and subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


class StartFiles(CommandTest):
    def setUp(self):
        self.folder = self.scratch()
        prepare_corpus(self.folder)
        (self.folder / "run.toml").write_text(TINY.replace("global_batch = 2", "global_batch = 4").replace("steps = 4", "steps = 1"))

    def opened(self, ranks, folder, *more):
        """For each rank, how often it opened each of the files of the run that were there before."""
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", "sh", "-c", SCRIPT, str(TERRACE), "train", "run.toml",
                   "--set", f"checkpoint.folder={folder}", "--set", "train.evaluate_every=0", "--set", "train.evaluate_batches=0",
                   *more]  # fmt: skip
        result = subprocess.run(command, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
        self.expect(0, result)
        names = {"run.toml", "corpus.bin", "corpus.idx", "corpus.corpus.json", "tokenizer.model", "manifest.json", "config.toml"}
        counts = []
        for rank in range(ranks):
            lines = (self.folder / f"opened.{rank}").read_text(errors="replace").splitlines()
            found = [re.search(r'openat\(AT_FDCWD, "([^"]+)".*= \d+$', line) for line in lines]
            counts.append(collections.Counter(pathlib.Path(one[1]).name for one in found if one and pathlib.Path(one[1]).name in names))
        return counts

    def test_the_first_rank_reads_for_the_others(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                first, *others = self.opened(ranks, f"run_{ranks}")
                self.assertEqual(first["run.toml"], 1)
                for counts in others:
                    # Mapped once, and not read for the comparison among machines; small files not at all.
                    self.assertEqual(counts, {"corpus.bin": 1, "corpus.idx": 1})
                    for name in ("corpus.corpus.json", "tokenizer.model"):
                        self.assertGreaterEqual(first[name], 1)

    def test_the_first_rank_reads_what_a_checkpoint_says_of_itself(self):
        self.opened(2, "run")
        # Files of the run's folder, of which each rank of a large run writes some.
        (self.folder / "run/others").mkdir()
        for number in range(20):
            (self.folder / f"run/others/of_rank_{number}").write_text("x")
        first, other = self.opened(2, "run", "--resume", "auto", "--set", "train.steps=2")
        asked = [(self.folder / f"opened.{rank}").read_text(errors="replace").count("/others/of_rank_") for rank in (0, 1)]
        self.assertGreaterEqual(asked[0], 20)
        self.assertEqual(asked[1], 0)
        for name in ("manifest.json", "config.toml", "tokenizer.model"):
            self.assertGreaterEqual(first[name], 1)
            self.assertEqual(other[name], 0)


if __name__ == "__main__":
    if shutil.which("mpirun") is None or not can_trace():
        print("start_files_test.py: skipped, mpirun is not found, or strace is not found or may not trace")
        sys.exit(77)
    unittest.main()
