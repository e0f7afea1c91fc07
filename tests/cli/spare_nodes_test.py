"""Tests a job of Slurm with a spare node: the supervisor in its script replaces a node that fails, and the run ends with the bits
of one that was not disturbed. Slurm's nodes are all this machine, on which ranks of two nodes cannot meet, so the run has one
rank, on the first node; a rank of the second one waits for it."""
import json
import pathlib
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import slurm  # noqa: E402
from commands_test import TERRACE, prepare_corpus, terrace  # noqa: E402
from launched_jobs import CLUSTER, SlurmJobs  # noqa: E402

# Each node has a folder of its own in place of its memory.
PROGRAM = """#!/bin/bash
memory="$(dirname "$0")/memory/$SLURMD_NODENAME"
case "$1" in
  keep-node) exec {terrace} keep-node "$2" --memory "$memory" ;;
  launch) exec {terrace} "$@" ;;
esac
mkdir -p "$memory"
if [ "$SLURM_PROCID" = 0 ]; then
  for name in ${{!SLURM_*}}; do unset "$name"; done
  exec {terrace} "$@" --set "checkpoint.memory_folder=$memory"
fi
until grep -q finished run/.process.json; do sleep 0.2; done
"""

RUN = """[model]
layers = 1
width = 32
heads = 2
sequence = 64
vocabulary = 600
[data]
train = ["corpus"]
tokenizer = "tokenizer.model"
[train]
global_batch = 16
micro_batch = 8
steps = 600
threads = 1
log_every = 200
check_memory = false
[optimizer]
learning_rate = 1e-3
[checkpoint]
folder = "run"
memory_every = 10
"""


class ASpareNode(SlurmJobs):
    NODES = 3

    def write_files(self, folder):
        prepare_corpus(folder)
        (folder / "run.toml").write_text(RUN)
        machine = CLUSTER.replace("devices = 2", "devices = 1").replace("devices = 8", "devices = 4")
        (folder / "ours.toml").write_text(machine.replace("environment = [", 'mpi = "none"\nenvironment = ["SLURM_WAIT=2", ', 1))
        (folder / "program").write_text(PROGRAM.format(terrace=TERRACE))
        (folder / "program").chmod(0o755)
        return folder

    def step(self, folder):
        try:
            lines = (folder / "run/metrics.jsonl").read_text().splitlines()
        except OSError:
            return 0
        return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)

    def test_takes_the_place_of_a_node_that_fails(self):
        folder = self.write_files(self.scratch())
        job = self.submit(folder, "--spares", 1, "--program", folder / "program", nodes=2)
        deadline = time.monotonic() + 120
        while self.step(folder) < 45:
            self.assertLess(time.monotonic(), deadline, "no step 45")
            time.sleep(0.02)
        self.slurm.lose("node2", with_daemon=True, every_step=True)
        self.slurm.ask("scontrol", "update", "nodename=node2", "state=down", "reason=lost")
        try:
            log = self.ended(folder, job)
        finally:
            self.slurm.start_node("node2")
        self.assertIn("the ranks start on node1, node2; spare: node3", log)
        self.assertIn("node node2 is lost", log)
        self.assertIn("the spare node node3 takes the place of node2", log)
        self.assertRegex(log, r"the loss of node2: .* from the last sign of life to step \d+: ")
        self.assertIn("of the copies in the memory of the nodes", log)
        undisturbed = folder / "undisturbed"
        self.expect(0, terrace("train", "run.toml", "--set", f"checkpoint.folder={undisturbed}", folder=folder))
        for name in ("weights", "optimizer_m", "optimizer_v"):
            self.assertEqual((folder / f"run/step_00000600/{name}.safetensors").read_bytes(),
                             (undisturbed / f"step_00000600/{name}.safetensors").read_bytes(), name)  # fmt: skip


if __name__ == "__main__":
    if why := slurm.why_not():
        print(f"spare_nodes_test.py: skipped, {why}")
        sys.exit(77)
    unittest.main()
