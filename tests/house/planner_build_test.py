"""Builds the planner (the preset `planner`) where no torch can be found, and runs what it can do and what it refuses."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/house"))
sys.dont_write_bytecode = True
from report_runs import write_run  # noqa: E402

NEEDED = ("data", "report", "plan", "simulate", "search", "explain", "launch", "status", "keep-node", "completion", "man")
MISSING = ("train", "evaluate", "generate", "forecast", "score", "export", "import", "verify", "rehearse", "calibrate",
           "ensemble", "predict", "doctor")


def run(*command, folder=SOURCE):
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)


class PlannerBuild(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The folder is as deep in the tree as the build folders of the presets, so that the compiler cache has what
        # they have compiled.
        (SOURCE / "build").mkdir(exist_ok=True)
        cls.scratch = tempfile.TemporaryDirectory(prefix="planner_test_", dir=SOURCE / "build")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.build = pathlib.Path(cls.scratch.name)
        cls.program = cls.build / "terrace"
        jobs = str(os.cpu_count())
        for command in (("cmake", "--preset", "planner", "-B", cls.build, f"-DTERRACE_TORCH_ROOT={cls.build}/no_torch"),
                        ("cmake", "--build", cls.build, "--parallel", jobs)):
            result = run(*command)
            assert result.returncode == 0, result.stdout + result.stderr

    def terrace(self, *arguments):
        return run(self.program, *arguments, folder=self.build)

    def printed(self, *arguments):
        result = self.terrace(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_looks_for_none_of_what_training_needs(self):
        cache = (self.build / "CMakeCache.txt").read_text()
        self.assertEqual(re.findall(r"^(?:MPI|CUDA|HIP|NCCL|GTest|Torch)\w*", cache, re.M), [])

    def test_links_neither_torch_nor_mpi(self):
        libraries = run("ldd", self.program).stdout
        self.assertIn("libstdc++", libraries)
        for name in ("torch", "libc10", "libmpi", "libopen-rte", "libcuda", "libnccl", "libarrow", "libparquet"):
            self.assertNotIn(name, libraries)

    def test_says_what_it_is(self):
        self.assertRegex(self.printed("--version"), r"\Aterrace \d+\.\d+\.\d+ \(planner build, without training\)\n"
                         r"commit: .+\ncompiler: .+\ntorch: none\nMPI: none\nCUDA: none\nHIP: none\nlibraries: of the system\n\Z")
        page, help_text = self.printed("man"), self.printed("--help")
        for command in NEEDED:
            self.assertRegex(help_text, rf"(?m)^  {command} ")
        for command in MISSING:
            self.assertNotRegex(help_text, rf"(?m)^  {command} ")
            self.assertNotIn(f"terrace {command}", page)

    def test_refuses_what_needs_torch_and_says_how_to_get_it(self):
        for command in MISSING:
            result = self.terrace(command, SOURCE / "configs/tiny.toml", "--set", "train.steps=1")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertEqual(result.stderr, f"error: terrace {command} is not part of the planner build, which has no torch; for the whole "
                             "program run tools/setup, then cmake --preset release and cmake --build --preset release\n")  # fmt: skip

    def test_lists_every_command_as_present_or_missing(self):
        declared = [name.replace("_", "-") for name in re.findall(r"add_(\w+)_command", (SOURCE / "cli/commands.h").read_text())]
        self.assertEqual(sorted(declared), sorted(NEEDED + MISSING))

    def test_plans(self):
        plan = json.loads(self.printed("plan", SOURCE / "configs/tiny.toml", "--json"))
        self.assertTrue(plan["feasible"])
        self.assertGreater(plan["step_seconds"], 0)
        page = self.build / "plan.html"
        self.printed("plan", SOURCE / "configs/tiny.toml", "--report", page)
        self.assertIn("<html", page.read_text())

    def test_launches_the_program_that_trains(self):
        request = ("launch", SOURCE / "configs/tiny.toml", "--nodes", "1", "--machine", "laptop")
        refused = self.terrace(*request)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("this build trains nothing; name the program that trains there with --program PATH", refused.stderr)
        self.assertIn("  /opt/terrace train ", self.printed(*request, "--program", "/opt/terrace"))
        folder = write_run(self.build / "followed")
        self.assertIn("step 200", self.printed("status", folder))

    def test_simulates(self):
        trace = self.build / "step.json"
        simulated = json.loads(self.printed("simulate", SOURCE / "configs/tiny.toml", "--json", "--trace", trace))
        self.assertEqual(len(simulated["stages"]), 1)
        self.assertTrue(json.loads(trace.read_text())["traceEvents"])

    def test_reports(self):
        folder = write_run(self.build / "run")
        self.assertEqual(json.loads(self.printed("report", folder, "--json"))["steps"], 200)
        self.printed("report", folder)
        self.assertIn("<html", (folder / "report.html").read_text())

    def test_explains(self):
        results = self.build / "results.csv"
        results.write_text("p:x,objective\n" + "".join(f"{i},{2 * i}\n" for i in range(20)))
        explained = json.loads(self.printed("explain", results, "--json"))
        self.assertEqual(explained["attributions"][0]["ranking"][0]["parameter"], "x")

    def test_prepares_data(self):
        self.printed("data", "prepare", SOURCE / "docs", "--output", self.build / "docs", "--train-tokenizer",
                     self.build / "docs.model", "--vocabulary", "600", "--overwrite")  # fmt: skip
        self.printed("data", "inspect", self.build / "docs", "--tokenizer", self.build / "docs.model")

    def test_installs(self):
        prefix = self.build / "prefix"
        self.assertEqual(run("cmake", "--install", self.build, "--prefix", prefix).returncode, 0)
        self.assertEqual(run(prefix / "bin/terrace", "--version").returncode, 0)
        # The module that reads Parquet is found from where the program lies, and its absence is explained.
        write = "import sys, pyarrow as pa, pyarrow.parquet as pq; pq.write_table(pa.table({'text': ['some text'] * 50}), sys.argv[1])"
        self.assertEqual(run(SOURCE / ".deps/python/bin/python", "-c", write, self.build / "a.parquet").returncode, 0)
        self.test_prepares_data()
        prepare = (prefix / "bin/terrace", "data", "prepare", self.build / "a.parquet", "--output", self.build / "a", "--tokenizer",
                   self.build / "docs.model", "--overwrite")  # fmt: skip
        self.assertEqual(run(*prepare).returncode, 0)
        run_path = run("readelf", "-d", prefix / "bin/terrace").stdout
        self.assertIn("$ORIGIN/../lib/terrace", run_path)
        self.assertNotIn(str(self.build), run_path)
        (prefix / "lib/terrace/terrace_parquet.so").unlink()
        refused = run(*prepare)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("run tools/setup, which installs Arrow's library", refused.stderr)


if __name__ == "__main__":
    unittest.main()
