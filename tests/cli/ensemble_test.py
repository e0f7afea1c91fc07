"""Tests ensembles of the built binary: members side by side, stopped, killed and continued, and members that fail."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from commands_test import TERRACE, TINY, CommandTest, prepare_corpus, terrace

ENVIRONMENT = os.environ | {"OMP_WAIT_POLICY": "passive"}


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    EnsembleTest.folder = pathlib.Path(scratch.name)
    prepare_corpus(EnsembleTest.folder)
    (EnsembleTest.folder / "run.toml").write_text(TINY)


def losses(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


class EnsembleTest(CommandTest):
    def ensemble(self, *arguments):
        return terrace("ensemble", *arguments, folder=self.folder)

    def state(self, name):
        return json.loads((self.folder / name / "ensemble.json").read_text())

    def states(self, name):
        return [member["state"] for member in self.state(name)["members"]]

    def test_members_train_as_they_do_alone_and_are_left_alone_when_done(self):
        result = json.loads(self.expect(0, self.ensemble("run.toml", "--seeds", 2, "--ranks", 2, "--output", "two", "--json")).stdout)
        self.assertEqual(result, self.state("two"))
        self.assertEqual([(one["state"], one["step"], one["ranks"]) for one in result["members"]], [("done", 4, 1)] * 2)
        self.expect(0, terrace("train", "two/member_2.toml", "--set", "checkpoint.folder=alone", folder=self.folder))
        self.assertEqual(losses(self.folder / "two/member_2"), losses(self.folder / "alone"))
        self.assertNotEqual(losses(self.folder / "two/member_1"), losses(self.folder / "alone"))
        before = (self.folder / "two/member_1.log").stat().st_mtime_ns
        self.expect(0, self.ensemble("run.toml", "--seeds", 2, "--ranks", 2, "--output", "two"))
        self.assertEqual((self.folder / "two/member_1.log").stat().st_mtime_ns, before)
        self.expect(2, self.ensemble("run.toml", "--seeds", 2, "--output", "two", "--set", "model.width=32"), "model.width")

    def test_the_third_of_three_equal_members_is_trained_by_both_ranks(self):
        self.expect(0, self.ensemble("run.toml", "--seeds", 3, "--ranks", 2, "--output", "three"))
        state = self.state("three")
        self.assertEqual(sorted(member["ranks"] for member in state["members"]), [1, 1, 2])
        self.assertLessEqual(state["greatest_over_mean"], 1.1)

    def test_a_member_that_fails_lets_the_others_go_on_and_is_tried_again(self):
        (self.folder / "bad.toml").write_text(TINY.replace('train = ["corpus"]', 'train = ["later"]'))
        command = ("run.toml", "bad.toml", "--ranks", 1, "--output", "mixed")
        self.expect(1, self.ensemble(*command), "member_2 ended with exit code 2", "later")
        self.assertEqual(self.states("mixed"), ["done", "failed"])
        for suffix in (".bin", ".idx", ".json"):
            if (self.folder / f"corpus{suffix}").exists():
                (self.folder / f"later{suffix}").symlink_to(self.folder / f"corpus{suffix}")
        self.expect(0, self.ensemble(*command))
        self.assertEqual(self.states("mixed"), ["done", "done"])

    def start(self, name, steps):
        command = [TERRACE, "ensemble", "run.toml", "--seeds", "2", "--ranks", "1", "--output", name, "--set", f"train.steps={steps}",
                   "--set", "checkpoint.every=50"]  # fmt: skip
        child = subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        while child.poll() is None and not list((self.folder / name).glob("member_*/step_*/COMPLETE")):
            time.sleep(0.01)
        return command, child

    def test_a_stop_and_a_kill_lose_no_step(self):
        steps = 1500
        command, child = self.start("stopped", steps)
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=120)
        self.assertEqual(child.returncode, 4, said)
        self.assertIn("stopped", self.states("stopped"))
        command, child = self.start("stopped", steps)
        child.kill()
        child.communicate(timeout=120)
        self.expect(0, terrace(*command[1:], folder=self.folder))
        self.assertEqual(self.states("stopped"), ["done", "done"])
        self.expect(0, terrace("train", "stopped/member_1.toml", "--set", "checkpoint.folder=whole", folder=self.folder))
        self.assertEqual(losses(self.folder / "stopped/member_1"), losses(self.folder / "whole"))

    def test_mistakes_are_refused_with_the_way_out(self):
        self.expect(2, self.ensemble("run.toml", "--output", "none"), "--seeds 5")
        self.expect(2, self.ensemble("run.toml", "--seeds", 2, "--ranks", 3, "--set", "layout.pipeline=2", "--output", "none"),
                    "--ranks 2")  # fmt: skip
        self.assertFalse((self.folder / "none").exists())


if __name__ == "__main__":
    unittest.main()
