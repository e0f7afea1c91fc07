"""Compares machines/published_errors.json and the tables of bench/results/plan_fidelity.md with what bench_plan_fidelity finds now."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BENCHMARK = pathlib.Path(sys.argv.pop(1)).resolve()


class PlanErrors(unittest.TestCase):
    def test_the_file_and_the_published_tables_are_those_of_the_benchmark(self):
        with tempfile.TemporaryDirectory() as folder:
            errors = pathlib.Path(folder) / "errors.json"
            run = subprocess.run([BENCHMARK, "--errors", errors], cwd=ROOT, capture_output=True, text=True, timeout=300)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual((ROOT / "machines/published_errors.json").read_text(), errors.read_text(),
                             "bench_plan_fidelity --errors machines/published_errors.json writes it again")  # fmt: skip
        # The tables stand between the sentence about the run and the one about larger errors.
        published = (ROOT / "bench/results/plan_fidelity.md").read_text()
        tables = published.partition("\n\n")[2].partition("\nWhat is known of the larger errors")[0]
        self.assertEqual(tables.strip(), run.stdout.strip())


unittest.main()
