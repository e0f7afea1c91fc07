"""Runs of the built binary on several ranks: threads, mpirun and srun train the same bits, and lose nothing."""
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
from commands_test import TERRACE, TINY, CommandTest, prepare_corpus, terrace  # noqa: E402

RANKS = 3
MPIRUN = ["mpirun", "-n", str(RANKS), "--oversubscribe", "--bind-to", "none"]
ENVIRONMENT = os.environ | {
    "OMP_WAIT_POLICY": "passive", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}  # fmt: skip
LAYOUT = ["--set", "layout.sharding=zero3", "--set", "layout.deterministic=true", "--set", "optimizer.decay_steps=4"]


def setUpModule():
    """A corpus, and a run on ranks that are threads: one step, from which all go on with the same kernels, and the rest."""
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    Ranks.folder = pathlib.Path(scratch.name)
    prepare_corpus(Ranks.folder)
    (Ranks.folder / "run.toml").write_text(TINY.replace("global_batch = 2", "global_batch = 6"))
    for steps, folder in ((1, "begun"), (4, "threads")):
        Ranks.begin(folder)
        result = terrace(*Ranks.arguments(folder, "--ranks", RANKS, "--set", f"train.steps={steps}"), folder=Ranks.folder)
        assert result.returncode == 0, result.stderr


class Ranks(CommandTest):
    @classmethod
    def arguments(cls, folder, *more):
        return ["train", "run.toml", "--set", f"checkpoint.folder={folder}", "--resume", "auto", *LAYOUT, *map(str, more)]

    @classmethod
    def begin(cls, folder):
        if (cls.folder / "begun").exists():
            shutil.copytree(cls.folder / "begun", cls.folder / folder)

    def launch(self, launcher, folder, *more, timeout=120, environment=ENVIRONMENT):
        return subprocess.run([*launcher, TERRACE, *self.arguments(folder, *more)], cwd=self.folder, env=environment,
                              capture_output=True, text=True, timeout=timeout)

    def losses(self, folder):
        lines = [json.loads(line) for line in (self.folder / folder / "metrics.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line]

    def weights(self, folder, step):
        files = sorted((self.folder / folder / f"step_{step:08}").glob("*.safetensors"))
        return {path.name: path.read_bytes() for path in files}

    def check_same_run(self, folder, step=4):
        self.assertEqual(self.losses(folder), self.losses("threads"))
        self.assertEqual(len(self.weights(folder, step)), 3 * RANKS)
        self.assertEqual(self.weights(folder, step), self.weights("threads", step))

    def test_mpirun_trains_the_same_bits_as_threads(self):
        self.begin("mpirun")
        result = self.launch(MPIRUN, "mpirun")
        self.expect(0, result, "3 ranks with 1 thread each")
        self.assertEqual(result.stdout, "mpirun/step_00000004\n")  # said once
        self.check_same_run("mpirun")

    def test_a_mistake_is_said_once(self):
        result = self.launch(MPIRUN, "mistake", "--set", "train.global_batch=4")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count("cannot be dealt out to 3 data-parallel ranks"), 1, result.stderr)

    def test_threads_under_a_launcher_are_refused(self):
        result = self.launch(MPIRUN, "both", "--ranks", 2)
        self.assertEqual(result.returncode, 2)
        self.assertIn("leave --ranks out", result.stderr)

    def start_long_run(self, folder, launcher, environment=ENVIRONMENT):
        settings = ("train.steps=100000", "checkpoint.every=20", "train.evaluate_every=0", "train.evaluate_batches=0")
        more = [word for setting in settings for word in ("--set", setting)]
        command = [*launcher, TERRACE, *self.arguments(folder, *more)]
        child = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        while child.poll() is None and not list((self.folder / folder).glob("step_*/COMPLETE")):
            time.sleep(0.02)
        self.assertIsNone(child.poll(), child.communicate() if child.poll() is not None else "")
        return child

    def ranks_of(self, folder):
        found = subprocess.run(["pgrep", "-f", f"{TERRACE} train run.toml --set checkpoint.folder={folder} "], capture_output=True,
                               text=True)  # fmt: skip
        pids = [int(pid) for pid in found.stdout.split()]
        return [pid for pid in pids if os.readlink(f"/proc/{pid}/exe") == str(TERRACE)]

    def test_a_killed_rank_ends_the_others_with_the_reason_and_the_checkpoint(self):
        child = self.start_long_run("killed", MPIRUN)
        os.kill(self.ranks_of("killed")[1], signal.SIGKILL)
        _, said = child.communicate(timeout=30)
        self.assertNotEqual(child.returncode, 0)
        self.assertRegex(said, r"rank \d \(process \d+ on this machine\) has died")
        self.assertRegex(said, r"Continue from killed/step_\d+ with --resume auto")

    def test_a_signal_to_one_rank_ends_all_with_a_checkpoint(self):
        child = self.start_long_run("stopped", MPIRUN)
        os.kill(self.ranks_of("stopped")[2], signal.SIGUSR1)
        _, said = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 4, said)
        self.assertEqual(said.count("continue with --resume auto"), 1, said)

    def test_a_run_of_threads_continues_under_mpirun_and_back(self):
        self.begin("turns")
        self.expect(0, self.launch(MPIRUN, "turns", "--set", "train.steps=2"))
        self.expect(0, terrace(*self.arguments("turns", "--ranks", 3, "--set", "train.steps=3"), folder=self.folder))
        self.expect(0, self.launch(MPIRUN, "turns"))
        self.check_same_run("turns")

    @unittest.skipIf(slurm.why_not(), slurm.why_not())
    def test_a_requeued_job_goes_on_where_it_was(self):
        steps = 3000
        settings = (f"train.steps={steps}", "checkpoint.every=20", "train.evaluate_every=0", "train.evaluate_batches=0")
        more = [word for setting in settings for word in ("--set", setting)]
        command = " ".join(map(str, ["srun", "--mpi=pmix", TERRACE, *self.arguments("requeued", *more)]))
        with slurm.Slurm(cpus=RANKS) as cluster:
            def ask(*words):
                run = subprocess.run(words, cwd=self.folder, env=ENVIRONMENT | cluster.environment, capture_output=True, text=True,
                                     timeout=60)  # fmt: skip
                self.assertEqual(run.returncode, 0, run.stderr)
                return run.stdout.strip()

            def wait_for(what, seconds=150):
                end = time.monotonic() + seconds
                while not what() and time.monotonic() < end:
                    time.sleep(0.1)
                self.assertTrue(what(), (self.folder / "job.txt").read_text())

            job = ask("sbatch", "--parsable", "--requeue", "--open-mode=append", "-n", str(RANKS), "--output=job.txt", "--wrap", command)
            complete = lambda: list((self.folder / "requeued").glob("step_*/COMPLETE"))
            wait_for(complete)
            ask("scontrol", "requeue", job)
            wait_for(lambda: (self.folder / "requeued" / f"step_{steps:08}" / "COMPLETE").exists())
        self.assertIn("continues from requeued/step_", (self.folder / "job.txt").read_text())
        lines = (self.folder / "requeued" / "metrics.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["step"] for line in lines], list(range(1, steps + 1)))

    @unittest.skipIf(slurm.why_not(), slurm.why_not())
    def test_srun_trains_the_same_bits_as_threads(self):
        self.begin("srun")
        with slurm.Slurm(cpus=RANKS) as cluster:
            result = self.launch(["srun", "-n", str(RANKS), "--mpi=pmix"], "srun", environment=ENVIRONMENT | cluster.environment)
            self.expect(0, result, "3 ranks with 1 thread each")
        self.check_same_run("srun")


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("ranks_test.py: skipped, mpirun is not found")
        sys.exit(77)
    unittest.main()
