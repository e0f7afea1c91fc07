"""Tests that a slow rank and a slow link among processes are named within ten steps.

Processes share the cores with other tests, which make ranks slow indeed: what else is named is left to the tests of tests/observe and tests/rehearse, which have
no other work beside them.
"""
import subprocess
import sys
import unittest

LAUNCHER, PROGRAM = sys.argv[1:3]
SLOW_FROM = 24  # WatchedRun::slow_from


class Watched(unittest.TestCase):
    def named(self, what):
        run = subprocess.run([LAUNCHER, "-n", "4", PROGRAM, what], capture_output=True, text=True, timeout=100)
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [tuple(line.split()) for line in run.stdout.splitlines()]  # log lines begin with their time
        return [words for words in lines if words and words[0] == what], run.stdout + run.stderr

    def check(self, named, ends, log):
        """Checks that the rank or link with these ends is named in one of the ten steps."""
        self.assertTrue(any(words[1:-1] == ends and SLOW_FROM <= int(words[-1]) < SLOW_FROM + 10 for words in named), log)

    def test_the_slow_rank_is_named(self):
        named, log = self.named("rank")
        self.check(named, ("1",), log)
        self.assertRegex(log, r"rank 1 \(node .*\) computes \d+% slower than the other 3 ranks of stage 0")

    def test_the_slow_link_is_named(self):
        named, log = self.named("link")
        self.check(named, ("0", "2"), log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
