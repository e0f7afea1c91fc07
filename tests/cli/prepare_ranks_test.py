"""Tests terrace data prepare of text and graphs under mpirun and srun: the bytes of one process, also after kills."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import slurm  # noqa: E402
from commands_test import SOURCE, TERRACE, CommandTest, terrace  # noqa: E402
from ranks_test import ENVIRONMENT  # noqa: E402


def mpirun(ranks):
    return ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]


def frames(first, count):
    """Extended XYZ of so many water-like molecules."""
    lines = []
    for number in range(first, first + count):
        lines += ["3", f"energy={number * 0.25} Properties=species:S:1:pos:R:3", "O 0 0 0", f"H 0.9 0 {number * 1e-4}", "H -0.3 0.9 0"]
    return "\n".join(lines) + "\n"


class PreparedByRanks(CommandTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        result = terrace("data", "prepare", SOURCE / "docs", "--output", cls.folder / "corpus", "--train-tokenizer", cls.folder / "t.model",
                         "--vocabulary", 600)  # fmt: skip
        assert result.returncode == 0, result.stderr
        cls.make_inputs()

    @classmethod
    def make_inputs(cls):
        (cls.folder / "graphs.in").mkdir()
        for number in range(8):
            (cls.folder / f"graphs.in/{number}.extxyz").write_text(frames(100 * number, 40 + 30 * (number % 3)))

    def command(self, kind, output, *more):
        own = ["graphs.in", "--split", "0.8,0.1,0.1"] if kind == "graphs" else [str(SOURCE / "docs"), "--tokenizer", "t.model"]
        return [TERRACE, "data", "prepare", *own, "--kind", kind, "--output", output, "--threads", "1", *more]

    def prepare(self, kind, output, *more, launcher=(), environment=ENVIRONMENT):
        return subprocess.run([*launcher, *self.command(kind, output, *more)], cwd=self.folder, env=environment, capture_output=True,
                              text=True, timeout=120)  # fmt: skip

    ENDINGS = {"text": (".bin", ".idx", ".corpus.json"), "graphs": (".bin", ".json")}

    def check_same(self, kind, output, expected):
        for ending in self.ENDINGS[kind]:
            self.assertEqual((self.folder / f"{output}{ending}").read_bytes(), (self.folder / f"{expected}{ending}").read_bytes(), ending)
        left = sorted(path.name for path in self.folder.glob(f"*{output}*"))
        self.assertEqual(left, sorted(output + ending for ending in self.ENDINGS[kind]))

    def one_process(self, kind):
        output = f"one_{kind}"
        if not (self.folder / f"{output}.bin").exists():
            self.expect(0, self.prepare(kind, output))
        return output

    def test_of_one_two_and_three_processes_are_those_of_one(self):
        for kind in self.ENDINGS:
            expected = self.one_process(kind)
            for ranks in (1, 2, 3):
                with self.subTest(kind=kind, ranks=ranks):
                    output = f"of_{ranks}_{kind}"
                    said = json.loads(self.expect(0, self.prepare(kind, output, "--json", launcher=mpirun(ranks))).stdout)
                    self.assertGreater(said["tokens" if kind == "text" else "structures"], 0)  # one object, of one process
                    self.check_same(kind, output, expected)

    def test_a_tokenizer_is_trained_once_for_all_processes(self):
        result = subprocess.run([*mpirun(3), TERRACE, "data", "prepare", str(SOURCE / "docs"), "--output", "trained", "--train-tokenizer",
                                 "trained.model", "--vocabulary", "600"], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True,
                                timeout=240)  # fmt: skip
        self.expect(0, result)
        self.assertEqual(result.stderr.count("training a tokenizer of 600 tokens"), 1, result.stderr)
        for ending in self.ENDINGS["text"]:
            self.assertEqual((self.folder / f"trained{ending}").read_bytes(), (self.folder / f"corpus{ending}").read_bytes(), ending)
        self.assertEqual((self.folder / "trained.model").read_bytes(), (self.folder / "t.model").read_bytes())

    def test_mistakes_are_reported_once(self):
        for kind, more, said in (("text", ("--include", "*.none"), "holds no file that --include and --exclude leave"),
                                 ("graphs", ("--units", "charge=e"), "there is no property charge"), ("graphs", ("--seed", "-1"), "--seed -1")):
            with self.subTest(said):
                result = self.prepare(kind, "bad", *more, launcher=mpirun(3))
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(result.stderr.count(said), 1, result.stderr)
                self.assertNotIn("MPI_ABORT", result.stderr)
        self.assertEqual(list(self.folder.glob("*bad*")), [])

    def test_a_mistake_in_the_file_of_one_rank_ends_all(self):
        (self.folder / "mixed.in").mkdir()
        for number in range(3):
            (self.folder / f"mixed.in/{number}.extxyz").write_text(frames(0, 50))
        (self.folder / "mixed.in/1.extxyz").write_text(frames(0, 50) + "1\nenergy=inf\nH 0 0 0\n")
        command = [*mpirun(3), TERRACE, "data", "prepare", "mixed.in", "--kind", "graphs", "--output", "mixed"]
        result = subprocess.run(command, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("1.extxyz: structure 51: energy is inf"), 1, result.stderr)
        self.assertEqual([path.name for path in self.folder.glob("*mixed*")], ["mixed.in"])

    def ranks_of(self, output):
        found = subprocess.run(["pgrep", "-f", f"^{TERRACE} data prepare .* --output {output} "], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def test_killed_processes_are_continued_by_others(self):
        # One large file is being read when the others are finished and recorded, which happens when the ranks end by SIGTERM:
        # mpirun passes that on after a second or two.
        (self.folder / "large.in").mkdir(exist_ok=True)
        for number, count in enumerate((600_000, 10, 200, 30, 100)):
            (self.folder / f"large.in/{number}.extxyz").write_text(frames(number, count))
        words = ["data", "prepare", "large.in", "--kind", "graphs", "--output", "killed", "--threads", "1"]
        expected = subprocess.run([TERRACE, *words[:-3], "whole", *words[-2:]], cwd=self.folder, capture_output=True, text=True, timeout=120)
        self.expect(0, expected)
        for victim in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(victim.name):
                child = subprocess.Popen([*mpirun(2), TERRACE, *words], cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)  # fmt: skip
                self.addCleanup(child.kill)
                # The second rank has all the small files, which it has read in no time.
                end = time.monotonic() + 60
                while not list(self.folder.glob("killed.parts/0.1.structures")) and time.monotonic() < end and child.poll() is None:
                    time.sleep(0.01)
                time.sleep(0.2)
                pids = self.ranks_of("killed")
                self.assertEqual(len(pids), 2, child.poll())
                # SIGKILL of the rank with the large file: mpirun then ends the other one, which keeps what it has.
                os.kill(min(pids) if victim == signal.SIGKILL else child.pid, victim)
                _, said = child.communicate(timeout=60)
                self.assertNotEqual(child.returncode, 0)
                self.assertFalse((self.folder / "killed.json").exists())
                self.assertTrue(list(self.folder.glob("killed.parts/*.jsonl")), said)
                result = subprocess.run([*mpirun(3), TERRACE, *words, "--resume"], cwd=self.folder, env=ENVIRONMENT, capture_output=True,
                                        text=True, timeout=120)  # fmt: skip
                self.expect(0, result)
                self.assertRegex(result.stderr, r"continuing: [1-4] of 5 input files are finished")
                self.check_same("graphs", "killed", "whole")
                for ending in self.ENDINGS["graphs"]:
                    (self.folder / f"killed{ending}").unlink()

    @unittest.skipIf(slurm.why_not(), slurm.why_not())
    def test_srun_prepares_the_same(self):
        with slurm.Slurm(cpus=3) as cluster:
            srun, environment = ["srun", "-n", "3", "--mpi=pmix"], ENVIRONMENT | cluster.environment
            for kind in self.ENDINGS:
                with self.subTest(kind):
                    self.expect(0, self.prepare(kind, f"srun_{kind}", launcher=srun, environment=environment))
                    self.check_same(kind, f"srun_{kind}", self.one_process(kind))


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("prepare_ranks_test.py: skipped, mpirun is not found")
        sys.exit(77)
    unittest.main()
