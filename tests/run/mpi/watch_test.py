"""Tests that a slow rank and a slow link among processes are named within ten steps, and nothing else."""
import subprocess
import sys
import unittest

LAUNCHER, PROGRAM = sys.argv[1:3]
SLOW_FROM = 24  # WatchedRun::slow_from


class Watched(unittest.TestCase):
    def named(self, what):
        run = subprocess.run([LAUNCHER, "-n", "4", PROGRAM, what], capture_output=True, text=True, timeout=100)
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [line.split() for line in run.stdout.splitlines()]  # log lines begin with their time
        return [words for words in lines if words and words[0] in ("rank", "link")], run.stdout + run.stderr

    def test_the_slow_rank_is_named(self):
        [(what, rank, step)], log = self.named("rank")
        self.assertEqual((what, rank), ("rank", "1"), log)
        self.assertTrue(SLOW_FROM <= int(step) < SLOW_FROM + 10, log)
        self.assertRegex(log, r"rank 1 \(node .*\) computes \d+% slower than the other 3 ranks of stage 0")

    def test_the_slow_link_is_named(self):
        [(what, one, other, step)], log = self.named("link")
        self.assertEqual((what, one, other), ("link", "0", "2"), log)
        self.assertTrue(SLOW_FROM <= int(step) < SLOW_FROM + 10, log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
