"""Tests that a run which crashes leaves one folder with stack, last calls, versions, configuration and environment, and that its
log says where."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from commands_test import TERRACE, TINY, CommandTest, prepare_corpus

LONG = ["--set", "train.steps=100000", "--set", "train.evaluate_every=0", "--set", "checkpoint.every=0", "--set", "train.threads=1"]
MPIRUN = ["mpirun", "-n", "2"]
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive", "MY_API_TOKEN": "hidden-value", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                            "OMPI_MCA_hwloc_base_binding_policy": "none"}


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    Crashes.folder = pathlib.Path(scratch.name)
    prepare_corpus(Crashes.folder)
    (Crashes.folder / "run.toml").write_text(TINY)


class Crashes(CommandTest):
    def start(self, folder, *launcher, more=()):
        child = subprocess.Popen([*launcher, TERRACE, "train", "run.toml", "--set", f"checkpoint.folder={folder}", *LONG, *more],
                                 cwd=self.folder, text=True, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(child.kill)
        metrics, deadline = self.folder / folder / "metrics.jsonl", time.monotonic() + 60
        while not (metrics.exists() and metrics.read_text().count("\n") > 5):
            self.assertIsNone(child.poll())
            self.assertLess(time.monotonic(), deadline, "no step")
            time.sleep(0.05)
        return child

    def crash_of(self, folder, log):
        """The folder of the only crash, which one line of the log names."""
        [crash] = (self.folder / folder / "crashes").iterdir()
        self.assertEqual(len(re.findall(rf"are in {folder}/crashes/{crash.name}$", log, re.MULTILINE)), 1, log)
        facts = json.loads((crash / "crash.json").read_text())
        self.assertEqual(facts["environment"]["MY_API_TOKEN"], "(left out)")
        self.assertNotIn("hidden-value", (crash / "crash.json").read_text())
        self.assertIn("train", facts["command_line"])
        self.assertIn("commit", facts["build"])
        self.assertEqual((crash / "resolved.toml").read_text(), (self.folder / folder / "resolved.toml").read_text())
        return crash, facts

    def flights(self, crash, ranks):
        for rank in range(ranks):
            self.assertGreater(len(json.loads((crash / f"flight_rank_{rank:03}.json").read_text())), 5)

    def test_a_fatal_signal_to_ranks_that_are_threads(self):
        child = self.start("threads", more=["--ranks", "2"])
        child.send_signal(signal.SIGSEGV)
        log = child.communicate(timeout=30)[1]
        self.assertEqual(child.returncode, -signal.SIGSEGV, log)
        crash, facts = self.crash_of("threads", log)
        self.assertTrue(facts["reason"].startswith("SIGSEGV"))
        self.assertGreater(len(json.loads((crash / "threads.json").read_text())["stack"]), 3)
        self.flights(crash, 2)

    def test_a_fatal_signal_to_one_process_of_several(self):
        child = self.start("processes", *MPIRUN)
        ranks = [int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*") if self.is_rank(path, "processes")]
        self.assertEqual(len(ranks), 2)
        os.kill(ranks[-1], signal.SIGBUS)
        log = child.communicate(timeout=30)[1]
        self.assertNotEqual(child.returncode, 0)
        crash, facts = self.crash_of("processes", log)
        self.assertTrue(facts["reason"].startswith("SIGBUS"))
        failed = json.loads((crash / f"rank_{int(facts['told_by'].split()[1]):03}.json").read_text())
        self.assertGreater(len(failed["stack"]), 3)
        self.flights(crash, 2)

    @staticmethod
    def is_rank(entry, folder):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return words[0].endswith(b"/terrace") and f"checkpoint.folder={folder}".encode() in words

    def test_an_exception_has_the_stack_of_its_throw(self):
        run = subprocess.run([TERRACE, "train", "run.toml", "--set", "checkpoint.folder=diverges", "--ranks", "2", *LONG,
                              "--set", "optimizer.learning_rate=1e30", "--set", "optimizer.clip=0", "--set", "optimizer.warmup_steps=0"],
                             cwd=self.folder, text=True, env=ENVIRONMENT, capture_output=True, timeout=60)
        self.assertEqual(run.returncode, 1, run.stderr)
        crash, facts = self.crash_of("diverges", run.stderr)
        self.assertIn("the loss is", facts["reason"])
        self.assertTrue(any("stop_not_finite" in frame for frame in json.loads((crash / "threads.json").read_text())["stack"]))
        self.flights(crash, 2)

    def test_a_mistake_before_the_first_step_and_a_stop_are_no_crashes(self):
        run = subprocess.run([TERRACE, "train", "run.toml", "--set", "checkpoint.folder=mistake", "--set", "data.train=[\"none\"]"],
                             cwd=self.folder, text=True, env=ENVIRONMENT, capture_output=True, timeout=60)
        self.assertEqual(run.returncode, 2)
        child = self.start("stopped")
        child.send_signal(signal.SIGUSR1)
        child.communicate(timeout=30)
        self.assertEqual(child.returncode, 4)
        for folder in ("mistake", "stopped"):
            self.assertFalse((self.folder / folder / "crashes").exists())


if __name__ == "__main__":
    unittest.main()
