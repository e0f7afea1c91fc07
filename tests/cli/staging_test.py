"""Tests runs of the built binary whose data are staged: mpirun trains the bits of a run without, and a disk that fills up is left."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from commands_test import TERRACE, TINY, CommandTest, prepare_corpus  # noqa: E402

ENVIRONMENT = os.environ | {
    "OMP_WAIT_POLICY": "passive", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}  # fmt: skip
RUN = TINY.replace("global_batch = 2", "global_batch = 8\nmicro_batch = 2").replace("steps = 4", "steps = 20")


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    Staging.folder = pathlib.Path(scratch.name)
    prepare_corpus(Staging.folder)
    (Staging.folder / "run.toml").write_text(RUN)


def arguments(folder, *keys):
    settings = [f"checkpoint.folder={folder}", "layout.deterministic=true", *keys]
    return ["train", "run.toml", *(part for key in settings for part in ("--set", key))]


class Staging(CommandTest):
    def launch(self, ranks, folder, *keys, prefix=()):
        mpirun = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
        return subprocess.run([*prefix, *mpirun, TERRACE, *arguments(folder, *keys)], cwd=self.folder, env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=300)

    def lines(self, folder):
        return [json.loads(line) for line in (self.folder / folder / "metrics.jsonl").read_text().splitlines()]

    def losses(self, folder):
        return [line.get("loss", line.get("validation_loss")) for line in self.lines(folder)]

    def last(self, folder):
        return [line for line in self.lines(folder) if "loss" in line][-1]

    def weights(self, folder):
        return {path.name: path.read_bytes() for path in (self.folder / folder / "step_00000020").glob("*.safetensors")}

    def check_same(self, folder, other):
        self.assertEqual(self.losses(folder), self.losses(other))
        self.assertTrue(self.weights(folder))
        self.assertEqual(self.weights(folder), self.weights(other))

    def test_mpirun_on_two_nodes_trains_the_same_bits(self):
        for ranks in (2, 4):
            self.expect(0, self.launch(ranks, f"plain{ranks}"))
            for window in (65536, 0):
                folder, disk = f"staged{ranks}_{window}", self.folder / f"disk{ranks}_{window}"
                disk.mkdir()
                result = self.launch(ranks, folder, f"data.stage={disk}/x",
                                     f"data.stage_bytes={window}", f"layout.ranks_per_node={ranks // 2}")
                self.expect(0, result, "of data on each node", "staging on the first node")
                self.check_same(folder, f"plain{ranks}")
                self.assertGreater(self.last(folder)["stage_copied_bytes"], 0)
                self.assertEqual(list((disk / "x").iterdir()), [])
        self.assertEqual([name for name in os.listdir("/dev/shm") if name.startswith("terrace-stage")], [])

    def test_nodes_pass_shares_on_under_mpirun(self):
        keys = ("data.order=node", "data.shares=2", "train.global_batch=512", "train.micro_batch=64", "train.steps=80",
                "train.evaluate_every=0")
        self.expect(0, self.launch(1, "one", *keys))
        disk = self.folder / "disk of nodes"
        disk.mkdir()
        result = self.launch(4, "nodes", *keys, f"data.stage={disk}", "layout.ranks_per_node=2", "layout.sharding=zero1")
        self.expect(0, result, "2 shares, which move on after step", "received from other nodes")
        for ours, one in zip(self.losses("nodes"), self.losses("one"), strict=True):
            self.assertAlmostEqual(ours, one, delta=1e-4)
        self.assertGreater(self.last("nodes")["stage_received_bytes"], 0)
        self.assertEqual(list(disk.iterdir()), [])

    def test_a_folder_that_only_one_node_lacks_is_refused_once(self):
        # Each rank is a node; only the first rank's variable names a folder that can be made.
        wrapper = self.folder / "wrapper.sh"
        wrapper.write_text("#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 0 ] && export DISK=$1/disk || export DISK=/proc/disk\n"
                           "shift\nexec \"$@\"\n")
        wrapper.chmod(0o755)
        mpirun = ["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", str(wrapper), str(self.folder)]
        result = subprocess.run([*mpirun, TERRACE, *arguments("lacks", "data.stage=$DISK/x", "layout.ranks_per_node=1")],
                                cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
        self.expect(2, result, "on rank 1", "data.stage = \"/proc/disk/x\": the folder cannot be made", "leave data.stage out")
        self.assertEqual(result.stderr.count("/proc/disk/x"), 1)

    def test_a_disk_that_fills_up_is_left_for_the_source(self):
        disk = self.folder / "small"
        disk.mkdir()
        mounted = ["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=96k none {disk} && exec \"$@\"", "sh"]
        if subprocess.run([*mounted, "true"], capture_output=True).returncode != 0:
            self.skipTest("needs root and the right to mount")
        self.expect(0, self.launch(2, "unfilled"))
        self.expect(0, self.launch(2, "filled", f"data.stage={disk}", "data.stage_bytes=10000000", prefix=mounted),
                    "is full (No space left on device)", "the rest is read from its source")
        self.check_same("filled", "unfilled")
        last = self.last("filled")
        for key in ("stage_copied_bytes", "stage_read_bytes", "source_read_bytes"):  # the window goes on with what fits
            self.assertGreater(last[key], 0)

    def test_a_killed_run_leaves_nothing(self):
        disk = self.folder / "killed"
        disk.mkdir()
        command = [TERRACE, *arguments("killed_run", f"data.stage={disk}", "train.steps=100000"), "--ranks", "2"]
        training = subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        for line in training.stderr:
            if "step 10" in line:
                break
        training.kill()
        training.wait()
        training.stderr.close()
        self.assertEqual(list(disk.iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
