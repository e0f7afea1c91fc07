"""Compares machines/published_errors.json with the errors that `terrace plan --score` finds now in the published tables."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "tools"))
from published_tables import score_command  # noqa: E402


class PlanErrors(unittest.TestCase):
    def test_the_file_is_what_the_score_of_the_published_tables_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            errors = pathlib.Path(folder) / "errors.json"
            run = subprocess.run(score_command(PROGRAM, "--errors", errors), cwd=ROOT, capture_output=True, text=True, timeout=300)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual((ROOT / "machines/published_errors.json").read_text(), errors.read_text(),
                             "python3 tools/published_tables.py writes it again")  # fmt: skip


unittest.main()
