"""Tests how long idle threads of loops wait before they sleep, as libgomp shows its settings when it is loaded."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from commands_test import TERRACE, TINY, CommandTest, prepare_corpus  # noqa: E402

UNSET = {name: value for name, value in os.environ.items() if not re.match("OMP_|GOMP_", name)}


class BriefWaiting(CommandTest):
    def shown(self, *command, **environment):
        """The turns that idle threads look for work, and the arguments that the program got."""
        result = subprocess.run([*(command or [TERRACE, "--version"])], env=UNSET | environment | {"OMP_DISPLAY_ENV": "verbose"},
                                capture_output=True, text=True, timeout=60)  # fmt: skip
        self.expect(0, result)
        self.assertTrue(result.stdout.startswith("terrace "), result.stdout)
        turns = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", result.stderr)
        self.assertEqual(len(turns), 1, result.stderr)
        return int(turns[0])

    def test_threads_wait_for_as_long_as_waking_takes(self):
        # 50 microseconds, in turns of 1 to 60 nanoseconds; libgomp's own 300,000 are milliseconds.
        turns = self.shown()
        self.assertGreater(turns, 800)
        self.assertLess(turns, 60_000)

    def test_the_choice_of_the_environment_stands(self):
        self.assertEqual(self.shown(GOMP_SPINCOUNT="77"), 77)
        self.assertEqual(self.shown(OMP_WAIT_POLICY="passive"), 0)
        self.assertGreater(self.shown(OMP_WAIT_POLICY="active"), 1_000_000)

    def test_programs_that_it_starts_measure_for_themselves(self):
        folder = self.scratch()
        (folder / "sbatch").write_text(f"#!/bin/sh\nenv > {folder}/environment\necho 17\n")
        (folder / "sbatch").chmod(0o755)
        (folder / "run.toml").write_text(TINY)
        prepare_corpus(folder)
        for given in ({}, {"GOMP_SPINCOUNT": "77"}):
            result = subprocess.run([TERRACE, "launch", "run.toml", "--machine", "laptop", "--nodes", "1", "--set", "train.global_batch=4", "--submit"], cwd=folder,
                                    env=UNSET | given | {"PATH": f"{folder}:{os.environ['PATH']}"}, capture_output=True, text=True, timeout=60)  # fmt: skip
            self.expect(0, result)
            lines = (folder / "environment").read_text().splitlines()
            set_there = dict(line.split("=", 1) for line in lines if line.startswith(("GOMP_", "TERRACE_BRIEF")))
            self.assertEqual(set_there, given)

    def test_it_starts_as_an_argument_of_the_loader(self):
        loader = next(pathlib.Path("/").glob("lib64/ld-linux-*.so.*"), None)
        if loader is None:
            self.skipTest("no loader of glibc at its usual place")
        self.assertEqual(self.shown(str(loader), str(TERRACE), "--version"), 300_000)

    def test_it_is_the_same_process_with_its_name_and_its_arguments(self):
        script = 'echo $$; exec "$0" completion "bash "'
        child = subprocess.Popen(["sh", "-c", script, TERRACE], env=UNSET, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stdout, stderr = child.communicate(timeout=60)
        self.assertEqual(stdout, f"{child.pid}\n")
        self.assertEqual(child.returncode, 2)
        self.assertIn("bash ", stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
