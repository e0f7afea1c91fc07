"""Tests runs of the built binary on several ranks: threads, mpirun and srun train the same bits, and lose nothing."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import namespaces  # noqa: E402
import slurm  # noqa: E402
from commands_test import SYSTEM_FAULTS, TERRACE, TINY, CommandTest, prepare_corpus, terrace  # noqa: E402
from forecast_test import PYTHON, WRITE_FIELDS  # noqa: E402

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
RANKS = 3
MPIRUN = ["mpirun", "-n", str(RANKS), "--oversubscribe", "--bind-to", "none"]
ENVIRONMENT = os.environ | {
    "OMP_WAIT_POLICY": "passive", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}  # fmt: skip
LAYOUT = ["--set", "layout.sharding=zero3", "--set", "layout.deterministic=true", "--set", "optimizer.decay_steps=4"]


def setUpModule():
    """Makes a corpus and a run on threads: one step, from which all runs continue with the same kernels, and the rest."""
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
        self.assertEqual(result.stdout, "mpirun/step_00000004\n")  # printed by one rank only
        self.check_same_run("mpirun")

    def test_a_mistake_is_reported_once(self):
        result = self.launch(MPIRUN, "mistake", "--set", "train.global_batch=4")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count("are not divisible among 3 data-parallel ranks"), 1, result.stderr)

    def check_refused_once(self, result, *words):
        self.assertEqual(result.returncode, 2, result.stderr)
        for text in words:
            self.assertEqual(result.stderr.count(text), 1, result.stderr)
        self.assertNotIn("MPI_ABORT", result.stderr)

    def test_mpirun_generates_with_a_model_that_its_ranks_divide(self):
        # The checkpoint is of three ranks without tensor cuts. The first rank alone has the standard input.
        arguments = ["generate", "threads", "--prompts", "-", "--temperature", "0", "--max-tokens", "6"]

        def launched(prompts, ranks=2):
            return subprocess.run(["mpirun", "-n", str(ranks), *MPIRUN[3:], TERRACE, *arguments], cwd=self.folder, env=ENVIRONMENT,
                                  input=prompts, capture_output=True, text=True, errors="replace", timeout=120)  # fmt: skip

        expected = self.expect(0, terrace(*arguments, folder=self.folder, prompt="The\nA step\n")).stdout
        self.assertEqual(self.expect(0, launched("The\nA step\n"), "2 ranks").stdout, expected)
        self.check_refused_once(launched("The\n\nA\n"), "standard input, line 2: the line is empty")
        self.check_refused_once(launched("The\n", ranks=RANKS), "3 ranks cannot divide the model")

    def test_mpirun_verifies_layouts_whose_ranks_compute_parts_of_the_model(self):
        for keys in (["tensor=2"], ["pipeline=2"], ["pipeline=2", "tensor=2", "schedule=zb-h1"]):
            with self.subTest(keys):
                settings = [word for key in keys for word in ("--set", f"layout.{key}")]
                result = subprocess.run(["mpirun", "-n", "4", *MPIRUN[3:], TERRACE, "verify", CONFIGS / "tiny.toml", *settings],
                                        cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)  # fmt: skip
                self.assertTrue(self.expect(0, result).stdout.endswith("holds\n"), result.stdout)

    def test_a_mistake_in_the_configuration_is_reported_once(self):
        began = time.monotonic()
        result = self.launch(MPIRUN, "mistake", "--set", "train.steps=none", "--set", "model.heads=7")
        self.check_refused_once(result, "train.steps = ", "model.heads = 7 does not divide")
        self.assertLess(time.monotonic() - began, 30)

    def test_a_mistake_that_one_rank_alone_sees_is_reported_by_that_rank(self):
        # Only on rank 1 is it another file.
        (self.folder / "elsewhere").mkdir()
        (self.folder / "elsewhere/run.toml").write_text("[model]\nlayers = 0\n")
        script = 'test "$OMPI_COMM_WORLD_RANK" != 1 || cd elsewhere; exec "$0" "$@"'
        result = self.launch([*MPIRUN, "sh", "-c", script], "mistake")
        self.check_refused_once(result, "error: on rank 1, but not on the ranks before it: ", "model.layers")

    def on_rank(self, rank, script):
        """A launcher whose rank runs a command before terrace."""
        return [*MPIRUN, "sh", "-c", f'test "$OMPI_COMM_WORLD_RANK" != {rank} || {{ {script}; }}; exec "$0" "$@"']

    def test_all_ranks_end_with_an_error_of_one_rank_before_training(self):
        # Only rank 1 reads this file.
        self.begin("broken")
        path = self.folder / "broken/step_00000001/optimizer_m.rank_0001.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        threads = terrace(*self.arguments("broken", "--ranks", RANKS), folder=self.folder)
        self.expect(2, threads, "error: ", path.name)
        result = self.launch(MPIRUN, "broken", timeout=60)
        self.check_refused_once(result, "error: on rank 1, but not on the ranks before it: ", path.name)
        self.assertNotIn("waited", threads.stderr + result.stderr)

    def test_unequal_numbers_of_ranks_on_machines_are_refused_with_the_list(self):
        try:
            with namespaces.Namespaces() as machines, open(self.folder / "said.txt", "w+") as said:
                code = machines.mpirun([TERRACE, *self.arguments(self.folder / "uneven")], error=said, ranks=(2, 1),
                                       environment=ENVIRONMENT)
                said.seek(0)
                result = subprocess.CompletedProcess([], code, "", said.read())
        except namespaces.NotAllowed as why:
            self.skipTest(str(why))
        self.check_refused_once(result, "the 3 ranks are not spread evenly over the machines: ", "--map-by ppr:1:node")
        self.assertRegex(result.stderr, r"\S+ has 2, \S+ has 1; ")

    SLOW = "export TERRACE_TEST_SLOW_FSYNC={} LD_PRELOAD=" + SYSTEM_FAULTS["LD_PRELOAD"]

    def start_slow_save(self, folder, seconds, *more):
        """Starts a run whose rank 1 has a slow disk; returns once the other ranks have written their first checkpoint."""
        settings = ("train.steps=100000", "checkpoint.every=2", "train.evaluate_every=0", "train.evaluate_batches=0", "layout.timeout=6", *more)
        words = [word for setting in settings for word in ("--set", setting)]
        command = [*self.on_rank(1, self.SLOW.format(seconds)), TERRACE, *self.arguments(folder, *words)]
        child = subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        while child.poll() is None and not list((self.folder / folder).glob(".step_00000002*/*rank*2*")):
            time.sleep(0.02)
        self.assertIsNone(child.poll(), child.communicate() if child.poll() is not None else "")
        return child

    def test_a_slow_disk_of_one_rank_ends_no_run_and_a_stop_waits_for_it(self):
        for background in ("true", "false"):
            folder = f"slow_{background}"
            child = self.start_slow_save(folder, 10, f"checkpoint.background={background}")
            os.kill(self.ranks_of(folder)[0], signal.SIGUSR1)
            _, said = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 4, said)
            self.assertRegex(said, "still waiting after [67] s: rank 0 waits in .*save checkpoint")
            self.assertIn("continue with --resume auto", said)
            self.assertTrue((self.folder / folder / "step_00000002/COMPLETE").exists())

    def test_a_rank_that_dies_while_its_disk_is_slow_ends_the_others(self):
        child = self.start_slow_save("slow_killed", 300)
        os.kill(self.ranks_of("slow_killed")[1], signal.SIGKILL)
        _, said = child.communicate(timeout=30)
        self.assertNotEqual(child.returncode, 0)
        self.assertRegex(said, r"rank 1 \(process \d+ on this machine\) has died")

    def threads_said(self, result):
        self.expect(0, result)
        return re.search(r"parameters, (\d+) threads?\b", result.stderr)[1]

    def test_threads_are_as_many_as_cores_may_be_used(self):
        cores = os.sched_getaffinity(0)
        settings = ["--set", "train.threads=0", "--set", "train.steps=1"]
        for ranks in (1, 2):
            result = self.train_alone("whole", ranks, *settings)
            self.assertEqual(self.threads_said(result), str(max(1, len(cores) // ranks)))
        bound = self.train_alone("bound", 1, *settings, launcher=["taskset", "-c", str(min(cores))])
        self.assertEqual(self.threads_said(bound), "1")

    def train_alone(self, folder, ranks, *more, launcher=()):
        words = ["train", "run.toml", "--set", f"checkpoint.folder={folder}_{ranks}", "--ranks", str(ranks), *more]
        return subprocess.run([*launcher, TERRACE, *words], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True,
                              timeout=120)  # fmt: skip

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 4, "needs four cores")
    def test_ranks_that_a_launcher_binds_to_few_cores_are_warned_of(self):
        launcher = ["mpirun", "-n", "2", "--bind-to", "core"]
        result = self.launch(launcher, "few", "--set", "train.threads=0", "--set", "train.steps=1")
        self.assertEqual(self.threads_said(result), "1")
        self.assertEqual(result.stderr.count("binds each rank to 1 core, but each of 2 ranks could have"), 1, result.stderr)

    def test_a_mistyped_command_line_is_reported_once(self):
        for words, said in ((["--rnks", "2"], "--rnks"), (["--profile", "x"], "--profile")):
            self.check_refused_once(self.launch(MPIRUN, "mistake", *words), said)

    def test_threads_under_a_launcher_are_refused(self):
        self.check_refused_once(self.launch(MPIRUN, "both", "--ranks", 2), "leave --ranks out")

    def verify(self, *launcher, more=()):
        words = ["verify", "run.toml", "--json", "--set", "layout.sharding=zero3", *more]
        return subprocess.run([*launcher, TERRACE, *words], cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True,
                              timeout=120)  # fmt: skip

    def test_verify_on_processes_finds_what_it_finds_on_threads(self):
        processes = self.verify(*MPIRUN)
        self.expect(0, processes)
        threads = self.verify(more=("--ranks", str(RANKS)))
        self.expect(0, threads)
        self.assertEqual(json.loads(processes.stdout), json.loads(threads.stdout))

    def test_verify_that_fails_on_processes_fails_once(self):
        result = self.verify(*MPIRUN, more=("--set", "optimizer.learning_rate=1e30"))
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("does not train as it should"), 1, result.stderr)
        self.check_refused_once(self.verify(*MPIRUN, more=("--set", "train.global_batch=4")), "are not divisible among 3")

    def last_calls(self, folder, child, pid):
        files = [self.folder / folder / f"flight_rank_{rank:03}.json" for rank in range(RANKS)]
        self.assertFalse(any(path.exists() for path in files))
        os.kill(pid, signal.SIGUSR2)
        end = time.monotonic() + 30
        while not all(path.exists() for path in files) and time.monotonic() < end:
            time.sleep(0.02)
        calls = [json.loads(path.read_text()) for path in files]
        self.assertTrue(all(calls))
        newest = lambda: max(path.parent.name for path in (self.folder / folder).glob("step_*/COMPLETE"))
        before = newest()
        while newest() == before and child.poll() is None:
            time.sleep(0.02)
        self.assertIsNone(child.poll())  # the run continues
        os.kill(pid, signal.SIGUSR1)
        _, said = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 4, said)
        for rank in range(RANKS):
            self.assertIn(f"rank {rank}: its last call is ", said)

    def test_a_signal_to_one_rank_makes_all_write_their_last_calls(self):
        child = self.start_long_run("asked", MPIRUN)
        self.last_calls("asked", child, self.ranks_of("asked")[1])

    def test_a_signal_makes_ranks_that_are_threads_write_their_last_calls(self):
        child = self.start_long_run("asked_threads", [], more=("--ranks", str(RANKS)))
        self.last_calls("asked_threads", child, child.pid)

    def start_long_run(self, folder, launcher, environment=ENVIRONMENT, more=(), every=20):
        settings = ("train.steps=100000", f"checkpoint.every={every}", "train.evaluate_every=0", "train.evaluate_batches=0")
        more = [*more, *(word for setting in settings for word in ("--set", setting))]
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

    def test_a_signal_to_mpirun_ends_the_run_with_a_checkpoint(self):
        # Open MPI passes SIGUSR1 on. After other signals it waits ten seconds here, ends the ranks by SIGTERM, waits ten more
        # until SIGKILL, and exits with 1. Meanwhile it reads nothing that they print, so few lines may be logged: a full pipe
        # would stop a rank before SIGTERM comes.
        for number, code in ((signal.SIGUSR1, 4), (signal.SIGTERM, 1), (signal.SIGINT, 1)):
            with self.subTest(number.name):
                folder = f"mpirun_{number.name}"
                launcher = [*MPIRUN, "--mca", "odls_base_sigkill_timeout", "10"]
                child = self.start_long_run(folder, launcher, more=("--set", "train.log_every=100000"), every=200)
                child.send_signal(number)
                _, said = child.communicate(timeout=60)
                self.assertEqual(child.returncode, code, said)
                self.check_saved_last(folder)

    def check_saved_last(self, folder):
        """Checks that the newest checkpoint is of the last step that the run made."""
        newest = max(path.parent.name for path in (self.folder / folder).glob("step_*/COMPLETE"))
        self.assertEqual(newest, f"step_{len(self.losses(folder)):08}")

    def test_a_signal_to_mpirun_in_the_last_evaluation(self):
        settings = ("data.validation_share=0.95", "train.micro_batch=1", "model.width=256", "model.layers=12", "train.evaluate_batches=")
        long, short = ([word for setting in settings for word in ("--set", setting)] for _ in range(2))
        long[-1] += "0"
        short[-1] += "1"
        child = subprocess.Popen([*MPIRUN, TERRACE, *self.arguments("evaluated", *long)], cwd=self.folder, env=ENVIRONMENT,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(child.kill)
        while child.poll() is None and not (self.folder / "evaluated/step_00000004/COMPLETE").exists():
            time.sleep(0.02)
        time.sleep(0.5)
        self.assertIsNone(child.poll())
        child.send_signal(signal.SIGUSR1)
        _, said = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 4, said)
        self.assertEqual(said.count("stopped on request in the evaluation after step 4, the last one"), 1, said)
        for _ in range(2):
            self.expect(0, self.launch(MPIRUN, "evaluated", *short))
            lines = (self.folder / "evaluated/metrics.jsonl").read_text().splitlines()
            self.assertEqual([("loss" in json.loads(line)) for line in lines], [True] * 4 + [False])

    @unittest.skipIf(slurm.why_not(), slurm.why_not())
    def test_a_signal_to_a_step_of_slurm_ends_the_run_with_a_checkpoint(self):
        with slurm.Slurm(cpus=RANKS) as cluster:
            environment = ENVIRONMENT | cluster.environment

            def scancel(*words):
                steps = subprocess.run(["squeue", "--steps", "--noheader", "--format=%i"], env=environment, capture_output=True,
                                       text=True, timeout=30).stdout.split()  # fmt: skip
                step = next(step for step in steps if step.endswith(".0"))
                subprocess.run(["scancel", *words, step], env=environment, check=True, timeout=30)

            signals = {
                "scancel_USR1": lambda child: scancel("--signal=USR1"),
                "scancel_TERM": lambda child: scancel("--signal=TERM"),
                "scancel_INT": lambda child: scancel("--signal=INT"),
                "srun_USR1": lambda child: child.send_signal(signal.SIGUSR1),
            }
            for folder, send in signals.items():
                with self.subTest(folder):
                    child = self.start_long_run(folder, ["srun", "-n", str(RANKS), "--mpi=pmix"], environment=environment)
                    send(child)
                    _, said = child.communicate(timeout=60)
                    self.assertEqual(child.returncode, 4, said)
                    self.check_saved_last(folder)

    def test_a_run_of_threads_continues_under_mpirun_and_back(self):
        self.begin("turns")
        self.expect(0, self.launch(MPIRUN, "turns", "--set", "train.steps=2"))
        self.expect(0, terrace(*self.arguments("turns", "--ranks", 3, "--set", "train.steps=3"), folder=self.folder))
        self.expect(0, self.launch(MPIRUN, "turns"))
        self.check_same_run("turns")

    @unittest.skipIf(slurm.why_not(), slurm.why_not())
    def test_a_requeued_job_continues_where_it_was(self):
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
            srun, environment = ["srun", "-n", str(RANKS), "--mpi=pmix"], ENVIRONMENT | cluster.environment
            result = self.launch(srun, "srun", environment=environment)
            self.expect(0, result, "3 ranks with 1 thread each")
            mistaken = self.launch(srun, "mistake", "--set", "train.steps=none", environment=environment)
            self.check_refused_once(mistaken, "train.steps = ")
        self.check_same_run("srun")


class PreparedFields(CommandTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        subprocess.run([PYTHON, "-c", WRITE_FIELDS, "fields.in", "6", "u"], cwd=cls.folder, check=True, timeout=300)

    def prepare(self, output, *more, launcher=MPIRUN):
        command = [*launcher, TERRACE, "data", "prepare", "fields.in", "--kind", "fields", "--output", output, *more]
        return subprocess.run(command, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)

    def test_of_three_processes_are_those_of_one(self):
        parts = ("--train", "2001-03-01", "2001-03-10", "--test", "2001-03-11", "2001-03-20")
        self.expect(0, self.prepare("one", *parts, launcher=[]))
        said = json.loads(self.expect(0, self.prepare("three", *parts, "--json")).stdout)  # printed by one process only
        self.assertEqual(said["times"], 80)
        for ending in (".json", ".nc"):
            self.assertEqual((self.folder / f"one{ending}").read_bytes(), (self.folder / f"three{ending}").read_bytes(), ending)
        self.assertEqual(sorted(path.name for path in self.folder.glob("*three*")), ["three.json", "three.nc"])

    def test_mistakes_are_reported_once(self):
        for more, said in ((("--variables", "w"), "no file has a variable w"), (("--climatology", "weekly"), "--climatology weekly"),
                           (("--variables", "t", "--levels", "5"), "no variable of the files has the level 5")):
            result = self.expect(2, self.prepare("bad", *more), said)
            self.assertEqual(result.stderr.count(said), 1, result.stderr)
            self.assertNotIn("MPI_ABORT", result.stderr)
        self.assertEqual(list(self.folder.glob("*bad*")), [])


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("ranks_test.py: skipped, mpirun is not found")
        sys.exit(77)
    unittest.main()
