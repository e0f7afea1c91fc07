"""Tests what a launched job makes of ranks that end without a word: with their node, with Slurm's step on it, or behind exit
codes of srun that mean something else. Slurm's nodes are all this machine."""
import pathlib
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import slurm  # noqa: E402
from launched_jobs import LEAVES, SlurmJobs  # noqa: E402

# Stands for terrace train on nodes of two ranks: the first rank does the line of `plan` that belongs to this start of the job,
# those of its node end with it, and those of the other node wait for what the test does to them.
PROGRAM = f"""#!/bin/bash
{LEAVES}
line=$((${{SLURM_RESTART_COUNT:-0}} + 1))
plan=$(sed -n "${{line}}p" plan)
wait_for_loss() {{ touch ready; until [ -e lost ]; do sleep 0.1; done; }}
if [ "$SLURM_PROCID" != 0 ]; then
  case "$SLURM_NODEID $plan" in 0*wait_for_loss*) wait_for_loss ;; *wait_for_loss*) sleep 600 ;; esac
  exit 0
fi
eval "$plan"
"""


class OfAStep(SlurmJobs):
    """The step ends, and its exit code is not that of the run."""

    PROGRAM = PROGRAM

    def job(self, *lines, more=("--until-done",)):
        folder = self.planned(*lines)
        return folder, self.submit(folder, *more, "--program", folder / "program")

    def test_code_0_counts_only_of_a_run_that_has_made_its_steps(self):
        folder, job = self.job("state running 0; steps 2; exit 0", more=())
        log = self.ended(folder, job)
        self.assertIn("srun ended with exit code 0, but the run has made 2 of 4 steps: taken for exit code 5", log)
        self.assertIn("ranks or their node failed (exit code 5); submit the script again", log)
        self.assertNotIn("all its steps", log)
        self.assertIn("5:0", self.slurm.ask("scontrol", "show", "job", job))
        # A run that finished with fewer steps than this one is to make, and nothing of which began.
        folder, job = self.job("exit 0", more=("--set", "train.steps=8"))
        (folder / "run").mkdir(exist_ok=True)
        self.assertIn("the run has made 0 of 8 steps: taken for exit code 5", self.ended(folder, job))

    def test_a_stopped_run_behind_code_0_goes_back_into_the_queue(self):
        log = self.ended(*self.job("state running 0; steps 2; checkpoint 2; state stopped 2; exit 0", "finish"))
        self.assertIn("taken for exit code 4", log)
        self.assertIn("step 0 to step 2, exit code 4: back into the queue", log)
        self.assertIn("the run has made all its steps", log)

    def test_a_code_of_srun_is_not_taken_for_one_of_the_run(self):
        log = self.ended(*self.job("state running 0; steps 3; checkpoint 2; exit 1", "finish"))
        self.assertIn("srun ended with exit code 1, but the run, which has made 3 of 4 steps, did not end by itself: taken for exit code 5", log)
        self.assertIn("step 0 to step 2, exit code 5: back into the queue", log)
        self.assertIn("the run has made all its steps", log)

    def test_a_run_that_says_that_it_failed_is_believed(self):
        for line in ("state running 0; checkpoint 2; state failed 2; exit 1", "checkpoint 2; exit 2"):
            log = self.ended(*self.job(line, "finish"))
            self.assertIn("which another job would not change: not requeued", log)
        # The second start refuses the configuration, and what is left of the first one says nothing about it.
        log = self.ended(*self.job("state running 0; checkpoint 2; exit 5", "exit 2", "finish"))
        self.assertIn("training ended with exit code 2, which another job would not change: not requeued", log)


class OfANode(SlurmJobs):
    """Of three nodes, a job has the first two."""

    NODES, PROGRAM = 3, PROGRAM

    def lose(self, folder, node, **more):
        deadline = time.monotonic() + 60
        while not (folder / "ready").exists():
            self.assertLess(time.monotonic(), deadline, "the ranks did not begin")
            time.sleep(0.1)
        time.sleep(1)  # all ranks have begun
        self.assertGreaterEqual(len(self.slurm.lose(node, **more)), 3, "two ranks and their step")
        (folder / "lost").touch()

    def started(self, *lines, more=()):
        folder = self.planned(*lines)
        # PMIx names files of a machine by the job alone, and all nodes are this machine.
        machine = (folder / "ours.toml").read_text().replace('environment = [', 'mpi = "none"\nenvironment = ["SLURM_WAIT=2", ', 1)
        (folder / "ours.toml").write_text(machine)
        return folder, self.submit(folder, *more, "--set", "train.global_batch=4", "--program", folder / "program", nodes=2)

    def test_a_lost_step_is_no_end_of_the_run(self):
        # The ranks of the other node end with 0, as srun then does.
        folder, job = self.started("state running 0; steps 2; checkpoint 2; wait_for_loss; exit 0", "finish", more=("--until-done",))
        self.lose(folder, "node2")
        log = self.ended(folder, job)
        self.assertIn("srun ended with exit code 0, but the run has made 2 of 4 steps: taken for exit code 5", log)
        self.assertIn("step 0 to step 2, exit code 5: back into the queue", log)
        self.assertEqual(log.rstrip().split("\n")[-1], "terrace launch: the run has made all its steps")

    def test_a_lost_node_is_replaced(self):
        folder, job = self.started("state running 0; steps 2; checkpoint 2; wait_for_loss; sleep 600", "finish")
        self.lose(folder, "node2", with_daemon=True)
        self.slurm.ask("scontrol", "update", "nodename=node2", "state=down", "reason=lost")
        try:
            log = self.ended(folder, job)
            self.assertIn("NODE FAILURE", log)
            self.assertEqual(log.count("the run has made all its steps"), 1)
            self.assertEqual(log.rstrip().split("\n")[-1], "terrace launch: the run has made all its steps")
        finally:
            self.slurm.start_node("node2")


if __name__ == "__main__":
    if why := slurm.why_not():
        print(f"lost_ranks_test.py: skipped, {why}")
        sys.exit(77)
    unittest.main()
