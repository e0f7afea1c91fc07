"""Tests that runs of the built binary that are killed, stopped, damaged or short of disk space lose nothing, to the bit."""
import ctypes
import fcntl
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import termios
import threading
import time
import unittest

from commands_test import SYSTEM_FAULTS, TERRACE, TINY, CommandTest, prepare_corpus, terrace

STEPS = 400
ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive"}
# A step of this model takes a second or more, so that a signal surely comes in the middle of a step.
LONG_STEPS = ["--set", "train.global_batch=20000", "--set", "train.micro_batch=200"]


def setUpModule():
    """Makes a corpus and the uninterrupted run, with which the others are compared."""
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    Interrupted.folder = pathlib.Path(scratch.name)
    prepare_corpus(Interrupted.folder)
    (Interrupted.folder / "run.toml").write_text(TINY.replace("evaluate_every = 4", "evaluate_every = 100"))
    whole = Interrupted.train("whole")
    assert whole.returncode == 0, whole.stderr


def complete(folder):
    return sorted(path.parent for path in folder.glob("step_*/COMPLETE"))


class Interrupted(CommandTest):
    @classmethod
    def arguments(cls, folder, *more, every=20, steps=STEPS):
        return ["train", "run.toml", "--set", f"checkpoint.folder={folder}", "--set", f"train.steps={steps}",
                "--set", f"checkpoint.every={every}", "--set", "train.threads=2", "--set", "model.dropout=0.1", *more]

    @classmethod
    def train(cls, folder, *more, every=20):
        return terrace(*cls.arguments(folder, *more, every=every), folder=cls.folder)

    def start(self, arguments, **options):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        child = subprocess.Popen([TERRACE, *arguments], cwd=self.folder, text=True, **streams | {"env": ENVIRONMENT} | options)
        self.addCleanup(child.kill)
        return child

    def wait_for(self, child, what):
        while child.poll() is None and not what():
            time.sleep(0.005)

    def start_and_signal(self, folder, number):
        """Starts a run and sends the signal when its first checkpoint is complete."""
        child = self.start(self.arguments(folder))
        self.wait_for(child, lambda: complete(self.folder / folder))
        child.send_signal(number)
        child.communicate(timeout=300)
        return child.returncode

    def expect_whole(self, folder):
        name = f"step_{STEPS:08}"
        for file in ("weights", "optimizer_m", "optimizer_v"):
            found, expected = (self.folder / run / name / f"{file}.safetensors" for run in (folder, "whole"))
            self.assertEqual(found.read_bytes(), expected.read_bytes(), file)
        lines = map(json.loads, (self.folder / folder / "metrics.jsonl").read_text().splitlines())
        self.assertEqual([line["step"] for line in lines if "loss" in line], list(range(1, STEPS + 1)))

    def expect_continues(self, folder):
        self.expect(0, self.train(folder, "--resume", "auto"), "continues from")
        self.expect_whole(folder)


class Signals(Interrupted):
    def test_a_killed_run_continues_to_the_last_bit(self):
        self.assertEqual(self.start_and_signal("killed", signal.SIGKILL), -signal.SIGKILL)
        self.expect_continues("killed")

    def test_a_run_that_is_asked_to_stop_saves_exits_with_4_and_continues(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            with self.subTest(number.name):
                self.assertEqual(self.start_and_signal(number.name, number), 4)
                self.expect_continues(number.name)

    def test_a_run_whose_terminal_is_closed_saves_and_continues(self):
        # The run's standard streams are the terminal's, and writing to them fails afterwards.
        terminal, end = os.openpty()
        child = self.start(self.arguments("closed"), stdin=end, stdout=end, stderr=end, start_new_session=True,
                           preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # fmt: skip
        os.close(end)
        reader = threading.Thread(target=self.read_until, args=(terminal, lambda: complete(self.folder / "closed")))
        reader.start()
        self.wait_for(child, lambda: complete(self.folder / "closed"))
        reader.join()
        os.close(terminal)
        self.assertEqual(child.wait(timeout=300), 4)
        self.expect_continues("closed")

    @staticmethod
    def read_until(terminal, condition):
        """What a terminal does with what is written to it."""
        while not condition():
            if select.select([terminal], [], [], 0.1)[0]:
                os.read(terminal, 65536)

    def test_a_run_that_ignores_the_end_of_its_terminal_goes_on(self):  # as nohup starts it
        child = self.start(self.arguments("nohup"), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for(child, lambda: complete(self.folder / "nohup"))
        child.send_signal(signal.SIGHUP)
        child.communicate(timeout=300)
        self.assertEqual(child.returncode, 0)
        self.expect_whole("nohup")

    def test_a_second_interrupt_ends_the_run_at_once(self):
        child = self.start(self.arguments("twice", *LONG_STEPS, every=1))
        self.wait_for(child, lambda: complete(self.folder / "twice"))
        child.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(child.poll())
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
        self.assertEqual(child.returncode, -signal.SIGINT)
        self.expect(4, self.train("twice", *LONG_STEPS, "--resume", "auto", "--set", "train.time_limit=0.01s", every=1),
                    "continues from", "stopped by train.time_limit = 0.01 s")

    def test_a_time_limit_stops_like_a_signal(self):
        self.expect(4, self.train("timed", "--set", "train.time_limit=0.0001s"), "stopped by train.time_limit = 0.0001 s",
                    "after step 1 of 400; continue with --resume auto")
        self.expect_continues("timed")

    def test_a_second_process_in_the_same_folder_is_refused(self):
        child = self.start(self.arguments("shared", *LONG_STEPS, every=1))
        self.wait_for(child, lambda: complete(self.folder / "shared"))
        self.expect(2, self.train("shared", "--resume", "auto"), "another process trains in shared")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
        self.assertEqual(child.returncode, 4)

    def test_an_older_checkpoint_than_the_newest_is_refused(self):
        older = complete(self.folder / "whole")[0].relative_to(self.folder)
        self.expect(2, self.train("whole", "--resume", str(older)), "is older than")


class InEvaluation(Interrupted):
    # An evaluation of all held-out data takes ten seconds or more, and one of a batch a moment.
    SETTINGS = ["--set", "data.validation_share=0.95", "--set", "train.global_batch=2", "--set", "train.micro_batch=1",
                "--set", "model.width=256", "--set", "model.layers=12"]

    def steps(self, folder, batches, *more, steps=4):
        return self.arguments(folder, *self.SETTINGS, "--set", f"train.evaluate_batches={batches}", *more, every=0, steps=steps)

    def signal_in_evaluation(self, folder, number, begun, *more):
        """Starts a run and sends the signal when its evaluation has begun; returns how it ended and what it said."""
        child = self.start(self.steps(folder, 0, *more))
        self.wait_for(child, begun)
        time.sleep(0.5)
        self.assertIsNone(child.poll())
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
        return child.returncode, said

    def lines(self, folder):
        lines = map(json.loads, (self.folder / folder / "metrics.jsonl").read_text().splitlines())
        return [(line["step"], "validation_loss" in line) for line in lines]

    def last_is_saved(self, folder):
        return lambda: (self.folder / folder / "step_00000004/COMPLETE").exists()

    def resume(self, folder, *more, steps=4):
        arguments = self.steps(folder, 1, "--resume", "auto", *more, steps=steps)
        self.expect(0, terrace(*arguments, folder=self.folder))

    STEPS_ALONE = [(step, False) for step in range(1, 5)]
    WHOLE = [*STEPS_ALONE, (4, True)]

    def test_a_signal_ends_the_last_evaluation_and_resuming_makes_it_once(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            with self.subTest(number.name):
                folder = f"evaluated_{number.name}"
                code, said = self.signal_in_evaluation(folder, number, self.last_is_saved(folder))
                self.assertEqual(code, 4, said)
                self.assertIn("stopped on request in the evaluation after step 4, the last one; continue with --resume auto", said)
                self.assertEqual(complete(self.folder / folder), [self.folder / folder / "step_00000004"])
                self.assertEqual(self.lines(folder), self.STEPS_ALONE)
                for _ in range(2):
                    self.resume(folder)
                    self.assertEqual(self.lines(folder), self.WHOLE)

    def test_a_run_killed_in_the_last_evaluation_has_lost_nothing(self):
        code, _ = self.signal_in_evaluation("evaluated_killed", signal.SIGKILL, self.last_is_saved("evaluated_killed"))
        self.assertEqual(code, -signal.SIGKILL)
        self.assertEqual(complete(self.folder / "evaluated_killed")[0].name, "step_00000004")
        for _ in range(2):
            self.resume("evaluated_killed")
            self.assertEqual(self.lines("evaluated_killed"), self.WHOLE)

    def test_an_earlier_evaluation_ends_too_and_is_made_before_the_next_step(self):
        more = ["--set", "train.evaluate_every=2"]
        metrics = self.folder / "evaluated_midway/metrics.jsonl"
        begun = lambda: metrics.exists() and '"step":2,' in metrics.read_text()
        code, said = self.signal_in_evaluation("evaluated_midway", signal.SIGTERM, begun, *more)
        self.assertEqual(code, 4, said)
        self.assertIn("stopped on request after step 2 of 4; continue with --resume auto", said)
        self.resume("evaluated_midway", *more)
        self.assertEqual(self.lines("evaluated_midway"), [(1, False), (2, False), (2, True), (3, False), (4, False), (4, True)])

    def test_a_time_limit_ends_an_evaluation(self):
        limit = ["--set", "train.time_limit=3s"]
        result = terrace(*self.steps("evaluated_timed", 0, *limit, steps=1), folder=self.folder)
        self.expect(4, result, "stopped by train.time_limit = 3 s", "in the evaluation after step 1, the last one")
        self.resume("evaluated_timed", *limit, steps=1)
        self.assertEqual(self.lines("evaluated_timed"), [(1, False), (1, True)])


class WithoutLocks(Interrupted):
    def test_without_locks_of_the_file_system_one_process_at_a_time_trains_in_a_folder(self):
        faults = SYSTEM_FAULTS | {"TERRACE_TEST_NO_FLOCK": "1"}
        child = self.start(self.arguments("no_locks", *LONG_STEPS), env=ENVIRONMENT | faults)
        mark = self.folder / "no_locks/.run.lock.owner"
        self.wait_for(child, mark.exists)
        self.assertIsNone(child.poll())
        more = ("--resume", "auto")
        second = terrace(*self.arguments("no_locks", *more), folder=self.folder, **faults)
        self.expect(2, second, "another process trains in no_locks", f"process {child.pid} on ", "has no locks")
        child.kill()
        self.assertIn(".run.lock has no locks", child.communicate()[1])
        third = terrace(*self.arguments("no_locks", *more, every=0), folder=self.folder, **faults)
        self.expect(0, third, f"process {child.pid} on ", "has died: its lock is taken over")
        self.assertFalse(mark.exists())


class Damaged(Interrupted):
    def test_the_command_in_the_message_continues_from_the_older_checkpoint(self):
        self.assertEqual(self.start_and_signal("damaged", signal.SIGTERM), 4)
        older, newest = complete(self.folder / "damaged")[-2:]
        with (newest / "optimizer_v.safetensors").open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\xff")
        result = self.train("damaged", "--resume", "auto")
        self.expect(2, result, f"damaged/{newest.name}/optimizer_v.safetensors is damaged", f"continue from damaged/{older.name}")
        command = re.search(r"with: (mv .*)", result.stderr)[1]
        done = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env=ENVIRONMENT | {"PATH": f"{TERRACE.parent}:{os.environ['PATH']}"})
        self.expect(0, done, f"continues from damaged/{older.name}")
        self.expect_whole("damaged")


class ShortOfRoom(Interrupted):
    def expect_out_of_room(self, child, folder, *said):
        """Checks that the run continued to its end, failed there for lack of disk space, and left whole checkpoints only."""
        errors = child.communicate(timeout=300)[1]
        self.assertEqual(child.returncode, 1, errors)
        for text in (*said, "The run continues", f"error: checkpoint {folder}/step_{STEPS:08} was not saved",
                     "Earlier checkpoints are untouched"):
            self.assertIn(text, errors)
        self.assertEqual(list((self.folder / folder).glob(".step_*")), [])
        for checkpoint in complete(self.folder / folder):
            self.expect(0, terrace("generate", checkpoint, "--max-tokens", 1, folder=self.folder))

    def test_a_limit_on_the_size_of_files(self):
        self.assertEqual(self.start_and_signal("limited", signal.SIGTERM), 4)
        before = complete(self.folder / "limited")
        child = self.start(self.arguments("limited", "--resume", "auto"),
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000)))
        self.expect_out_of_room(child, "limited", "File too large")
        self.assertEqual(complete(self.folder / "limited"), before)
        self.expect_continues("limited")

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        one = sum(file.stat().st_size for file in (self.folder / f"whole/step_{STEPS:08}").iterdir())
        libc = ctypes.CDLL(None, use_errno=True)
        # There is room for a few checkpoints and the metrics.
        if libc.mount(b"tmpfs", bytes(disk), b"tmpfs", 0, b"size=%d" % (4 * one + 300_000)) != 0:
            self.skipTest(f"mounting a small file system is not permitted here: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(libc.umount, bytes(disk))
        keep_all = ["--set", "checkpoint.keep=0"]
        child = self.start(self.arguments("disk/run", *keep_all))
        self.expect_out_of_room(child, "disk/run", "were free")
        saved = complete(disk / "run")
        self.assertGreaterEqual(len(saved), 2)
        for checkpoint in saved[:-1]:
            shutil.rmtree(checkpoint)
        # There is room for the kept checkpoints and the one being written.
        result = self.train("disk/run", "--resume", "auto", "--set", "checkpoint.keep=1")
        self.expect(0, result, f"continues from disk/run/{saved[-1].name}")
        self.expect_whole("disk/run")


if __name__ == "__main__":
    unittest.main()
