"""MPI ranks that srun starts in a Slurm of this test's own: they find each other, and end together."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "house"))
import slurm  # noqa: E402

RANKS, FAILURES = sys.argv[1], sys.argv[2]


class UnderSrun(unittest.TestCase):
    def srun(self, *command):
        run = subprocess.run(["srun", *command], env=SLURM.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=120)
        return run.returncode, run.stdout

    def test_four_ranks_do_every_operation(self):
        code, output = self.srun("-n", "4", RANKS)
        self.assertEqual(code, 0, output)

    def test_without_pmix_the_message_says_what_to_do(self):
        code, output = self.srun("-n", "2", "--mpi=none", RANKS)
        self.assertEqual(code, 2, output)
        self.assertIn("srun started 2 processes without the PMIx", output)
        self.assertIn("use srun --mpi=pmix", output)

    def test_a_killed_rank_ends_the_others_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            code, output = self.srun("-n", "3", FAILURES, "dies", folder)
        self.assertNotEqual(code, 0)
        self.assertRegex(output, r"rank 1 \(process \d+ on this machine\) has died; the run can be continued")


if __name__ == "__main__":
    if why := slurm.why_not():
        print(f"slurm_test.py: skipped, {why}")
        sys.exit(77)
    with slurm.Slurm(cpus=4) as SLURM:
        unittest.main(argv=sys.argv[:1], exit=True)
