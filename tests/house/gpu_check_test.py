"""tools/gpu_check with programs that only pretend: what is run in which order, what a budget leaves for the next call, and what the
archive holds."""
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Stands for every program: notes its call, says what FAIL or SKIP tells it to for the calls that they name, and takes NAP seconds.
PROGRAM = """#!/bin/sh
echo "$0 $*" >> "$CALLS"
case "$*" in *bench/gpu/compare.py*) for word; do last=$word; case $before in --output) echo bench > "$word";; esac; before=$word; done;; esac
[ -n "$SKIP" ] && case "$0 $*" in *$SKIP*) echo "[  SKIPPED ] CudaKernels.All";; esac
[ -n "$FAIL" ] && case "$0 $*" in *$FAIL*) echo "it went wrong"; exit 1;; esac
sleep "${NAP:-0}"
"""
PYTHON = """#!/bin/sh
[ "$1" = -c ] && { echo "2.11.0+cu130 13.0 /none/torch"; exit 0; }
exec "$PROGRAM" "$@"
"""
NVIDIA_SMI = """#!/bin/sh
case $1 in *name*) echo "NVIDIA H100, 9.0, 81559 MiB, 580.1";; *) echo 9.0;; esac
"""
PROGRAMS = ["terrace", "test_ops", "test_optim", "tests/comm/mpi/mpi_ranks", "bench/bench_step_trainer"]


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        bundle = self.folder / "bundle"
        for name in [*(f"programs/{name}" for name in PROGRAMS), "usr/bin/orterun"]:
            self.write(bundle / name, PROGRAM)
        (bundle / "hashes.txt").write_text("")
        with tarfile.open(self.folder / "programs.tar.gz", "w:gz") as archive:
            archive.add(bundle, ".")
        self.write(self.folder / "bin/nvidia-smi", NVIDIA_SMI)
        self.write(self.folder / "python", PYTHON)
        self.write(self.folder / "program", PROGRAM)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def check(self, *options, **variables):
        """Runs the tool; its exit code, its output and the calls that its programs noted."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        environment = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(calls), "LD_LIBRARY_PATH": "/driver",
                       "PROGRAM": str(self.folder / "program"), **variables}  # fmt: skip
        command = [ROOT / "tools/gpu_check", "--bundle", self.folder / "programs.tar.gz", "--results", self.folder / "results",
                   "--python", self.folder / "python", *options]  # fmt: skip
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=120)
        return result.returncode, result.stdout + result.stderr, calls.read_text().splitlines() if calls.exists() else []

    def outcomes(self):
        summary = json.loads((self.folder / "results/summary.json").read_text())
        return {part["part"]: part["outcome"] for part in summary["parts"]}

    def test_what_tells_most_comes_first_and_no_compiler_is_needed(self):
        code, text, calls = self.check("--workloads", "124M,1B,3B", "--peers", "compile")
        self.assertEqual(code, 0, text)
        self.assertIn("test_ops --gtest_filter=*Cuda*", calls[0])
        first = {what: next(i for i, call in enumerate(calls) if what in call)
                 for what in ("verify configs/tiny", "verify configs/vit-115m", "verify configs/painn", "--workloads 124M", "--workloads 1B",
                              "calibrate", "layout.tensor=2 --set layout.sequence_parallel", "--workloads 3B")}  # fmt: skip
        self.assertEqual(sorted(first.values()), list(first.values()), first)
        self.assertIn("--peers compile", calls[first["--workloads 1B"]])
        self.assertFalse([call for call in calls if "painn" in call and "bf16" in call])
        self.assertIn(":/driver", text)  # where the driver's libraries are
        self.assertEqual(set(self.outcomes().values()), {"passed"})

    def test_a_later_call_runs_what_failed_and_what_is_left(self):
        code, text, calls = self.check("--parts", "tests,layouts", FAIL="layout.tensor=2*")
        self.assertEqual(code, 1, text)
        self.assertIn("it went wrong", text)
        failed = [name for name, outcome in self.outcomes().items() if outcome != "passed"]
        self.assertIn("layout tiny 2 tensor=2 bf16", failed)
        code, text, again = self.check("--parts", "tests,layouts")
        self.assertEqual(code, 0, text)
        self.assertEqual(len(again), len(failed))
        self.assertEqual(self.check("--parts", "tests,layouts"), (0, unittest.mock.ANY, []))

    def test_a_budget_leaves_parts_for_the_next_call_and_the_archive_is_whole(self):
        archive = self.folder / "results.tar.gz"
        code, text, calls = self.check("--parts", "tests,layouts", "--budget", "23", "--archive", str(archive), NAP="1")
        self.assertEqual(code, 3, text)
        self.assertIn("the budget ended before these", text)
        with tarfile.open(archive) as packed:
            names = packed.getnames()
        self.assertIn("results/summary.json", names)
        self.assertIn("results/tests_of_the_kernels.log", names)
        self.assertLess(len(calls), 8)

    def test_tests_that_skip_for_want_of_a_gpu_fail(self):
        code, text, _ = self.check("--parts", "tests", SKIP="test_ops")
        self.assertEqual(code, 1, text)
        self.assertEqual(self.outcomes()["tests of the kernels"], "FAILED")
        self.assertEqual(self.outcomes()["tests of the optimizer"], "passed")


if __name__ == "__main__":
    unittest.main()
