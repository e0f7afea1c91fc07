"""Tests terrace launch --run with nodes that are lost: the run goes on on a spare, or on fewer nodes, from the copies in the
memory of the others, and ends with the bits of a run that was not disturbed. Nodes are network namespaces of this machine."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import cluster  # noqa: E402
from commands_test import TERRACE, CommandTest, prepare_corpus  # noqa: E402

# Steps of some hundredths of a second, of which a test sees each hundred pass.
CONFIG = """[model]
layers = 2
width = 48
heads = 2
sequence = 64
vocabulary = 600
[data]
train = ["{folder}/corpus"]
tokenizer = "{folder}/tokenizer.model"
[train]
global_batch = 16
micro_batch = 4
steps = 160
threads = 1
check_memory = false
log_every = 50
[optimizer]
learning_rate = 1e-3
[layout]
sharding = "zero1"
timeout = 60.0
[checkpoint]
folder = "run"
memory_every = 10
memory_folder = "{folder}/memory"
"""

# Nodes of one core.
MACHINE = """name = "ours"
[device]
name = "a core"
memory = "1 GiB"
memory_bandwidth = "5 GB/s"
kernel_time = "3 us"
launch_time = "0 us"
[device.fp32]
peak = "60 GFLOP/s"
achievable = "40 GFLOP/s"
[[tiers]]
name = "node"
devices = 1
link_bandwidth = "4 GB/s"
latency = "2 us"
[[tiers]]
name = "network"
devices = 4
link_bandwidth = "1 GB/s"
latency = "20 us"
"""


class LostNodes(CommandTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = cls.scratch_of_class()
        prepare_corpus(cls.shared)
        cls.undisturbed = cls.shared / "undisturbed"
        run = cls.launch(cls.undisturbed, nodes=2)
        assert run.wait(120) == 0, (cls.undisturbed / "log").read_text()

    @classmethod
    def scratch_of_class(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    @classmethod
    def launch(cls, folder, nodes, spares=0, own_cluster=None, more=()):
        """Starts the run in the folder; its log is in the file log."""
        folder.mkdir(exist_ok=True)
        (folder / "run.toml").write_text(CONFIG.format(folder=cls.shared))
        (folder / "ours.toml").write_text(MACHINE)
        if own_cluster is None:
            own_cluster = cluster.Cluster(nodes + spares)
            own_cluster.__enter__()
            cls.addClassCleanup(own_cluster.__exit__)
        command = [TERRACE, "launch", "run.toml", "--nodes", nodes, "--spares", spares, "--machine", "ours.toml", "--with", "mpirun",
                   "--run", "--hosts", ",".join(own_cluster.nodes), *more]  # fmt: skip
        with open(folder / "log", "w") as log:
            return own_cluster.start(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=log)

    def started(self, nodes, spares, more=()):
        own_cluster = cluster.Cluster(nodes + spares)
        own_cluster.__enter__()
        self.addCleanup(own_cluster.__exit__)
        folder = self.scratch()
        return own_cluster, folder, self.launch(folder, nodes, spares, own_cluster, more)

    def metrics(self, folder):
        try:
            lines = (folder / "run/metrics.jsonl").read_text().splitlines()
        except OSError:
            return []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def wait_for_step(self, folder, step):
        deadline = time.monotonic() + 60
        while not any(line.get("step", 0) >= step for line in self.metrics(folder)):
            self.assertLess(time.monotonic(), deadline, (folder / "log").read_text())
            time.sleep(0.02)

    def ended(self, folder, run):
        """The log of a run that ends well."""
        code = run.wait(120)
        log = (folder / "log").read_text()
        self.assertEqual(code, 0, log)
        return log

    def losses(self, folder):
        return [(line["step"], line["loss"]) for line in self.metrics(folder) if "loss" in line]

    def expect_undisturbed(self, folder):
        """The losses of all steps and the weights and moments at the end have the bits of the run that was not disturbed."""
        self.assertEqual(self.losses(folder), self.losses(self.undisturbed))
        last = "run/step_00000160"
        names = sorted(path.name for path in (folder / last).glob("*.safetensors"))
        self.assertEqual(len(names), 6)
        for name in names:
            self.assertEqual((folder / last / name).read_bytes(), (self.undisturbed / last / name).read_bytes(), name)

    def expect_outage(self, log, what, lost_at):
        """The line about the failure, whose parts add up, and the step from which the run went on."""
        line = re.search(rf"{what}: (.*) from the last sign of life to step (\d+): (.*) until it was noticed, (.*) to end the "
                         r"ranks, (.*) to choose nodes, (.*) to start the ranks, (.*) to read the state of step (\d+) and make", log)
        self.assertTrue(line, log)
        seconds = [self.seconds(line[group]) for group in (1, 3, 4, 5, 6, 7)]
        self.assertAlmostEqual(seconds[0], sum(seconds[1:]), delta=0.03 * seconds[0] + 0.05)
        self.assertLess(seconds[0], 30, log)
        self.assertGreater(int(line[8]), lost_at - 10 - 10, log)  # copies every 10 steps, of which one may be under way
        return int(line[8])

    @staticmethod
    def seconds(text):
        number, unit = text.split()
        return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]

    @staticmethod
    def ranks_on(own_cluster, node):
        """The processes of the ranks on a node."""
        ranks = []
        for pid in own_cluster.processes(node):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            if words[0].endswith(b"/terrace") and words[1:2] == [b"train"]:
                ranks.append(pid)
        return ranks

    def test_a_spare_takes_the_place_of_a_lost_node(self):
        own_cluster, folder, run = self.started(nodes=2, spares=1)
        self.wait_for_step(folder, 45)
        own_cluster.lose(own_cluster.nodes[1], self.shared / "memory")
        log = self.ended(folder, run)
        self.assertIn("node 10.78.0.2 is lost", log)
        self.assertIn("the spare node 10.78.0.3 takes the place of 10.78.0.2", log)
        self.assertIn("step_000000", log)
        self.assertGreaterEqual(self.expect_outage(log, "the loss of 10.78.0.2", 45), 30)
        self.expect_undisturbed(folder)
        self.assertEqual(list((self.shared / "memory").glob("*/*")), [])

    def test_a_node_that_falls_silent_is_noticed(self):
        own_cluster, folder, run = self.started(nodes=2, spares=1, more=("--node-timeout", 4))
        self.wait_for_step(folder, 45)
        own_cluster.silence(own_cluster.nodes[1], self.shared / "memory")
        log = self.ended(folder, run)
        self.assertIn("node 10.78.0.2 is lost: its keeper has given no sign for 4", log)
        self.expect_outage(log, "the loss of 10.78.0.2", 45)
        self.expect_undisturbed(folder)

    def test_without_spares_the_run_goes_on_on_fewer_nodes(self):
        own_cluster, folder, run = self.started(nodes=2, spares=0)
        self.wait_for_step(folder, 45)
        own_cluster.lose(own_cluster.nodes[1], self.shared / "memory")
        log = self.ended(folder, run)
        self.assertIn("no spare node is left: the run goes on on 1 of its 2 nodes", log)
        self.expect_outage(log, "the loss of 10.78.0.2", 45)
        # The batch is the same, in other micro-batches: losses are equal up to the order of sums.
        for (step, loss), (same_step, other) in zip(self.losses(folder), self.losses(self.undisturbed), strict=True):
            self.assertEqual(step, same_step)
            self.assertAlmostEqual(loss, other, delta=0.01)

    def test_a_rank_that_dies_starts_again_on_its_node(self):
        own_cluster, folder, run = self.started(nodes=2, spares=0)
        self.wait_for_step(folder, 45)
        subprocess.run(["kill", "-KILL", *self.ranks_on(own_cluster, own_cluster.nodes[1])], check=True)
        log = self.ended(folder, run)
        self.expect_outage(log, "a failure of the ranks on 10.78.0.2", 45)
        self.assertIn("the ranks failed, rank 1 on node 10.78.0.2 first (signal 9 (Killed))", log)
        self.assertNotIn("is lost", log)
        self.assertNotIn("is left out", log)
        self.expect_undisturbed(folder)

    def kill_ranks_until(self, folder, own_cluster, node, text):
        """Kills the ranks on the node whenever they start, until the log has the text."""
        deadline = time.monotonic() + 60
        while text not in (folder / "log").read_text():
            self.assertLess(time.monotonic(), deadline, (folder / "log").read_text())
            if ranks := self.ranks_on(own_cluster, node):
                subprocess.run(["kill", "-KILL", *ranks], capture_output=True)
            time.sleep(0.02)

    def test_a_node_at_which_ranks_die_again_and_again_is_left_out(self):
        own_cluster, folder, run = self.started(nodes=2, spares=1)
        self.wait_for_step(folder, 45)
        self.kill_ranks_until(folder, own_cluster, own_cluster.nodes[1], "node 10.78.0.2 is left out: the ranks failed there 2 times in a row")
        log = self.ended(folder, run)
        self.assertIn("the spare node 10.78.0.3 takes the place of 10.78.0.2", log)
        self.assertNotIn("is lost", log)
        self.expect_undisturbed(folder)
        failures = [json.loads(line) for line in (folder / "run/failures.jsonl").read_text().splitlines()]
        first, second, outage = failures
        for failure in (first, second):
            self.assertEqual(failure["failed"] | {"how": ""}, {"node": "10.78.0.2", "rank": 1, "how": ""})
            self.assertEqual(failure["nodes"], ["10.78.0.1", "10.78.0.2"])
        self.assertEqual((first["left_out"], second["left_out"]), (False, True))
        parts = outage["seconds"]
        self.assertAlmostEqual(parts["all"], sum(value for part, value in parts.items() if part != "all"), places=6)
        self.assertEqual(list((self.shared / "memory").glob("*/*")), [])

    def test_without_spares_the_run_goes_on_without_the_node_that_fails(self):
        own_cluster, folder, run = self.started(nodes=2, spares=0)
        self.wait_for_step(folder, 45)
        self.kill_ranks_until(folder, own_cluster, own_cluster.nodes[0], "node 10.78.0.1 is left out")
        log = self.ended(folder, run)
        self.assertIn("no spare node is left: the run goes on on 1 of its 2 nodes", log)
        self.assertIn("the ranks start again on 10.78.0.2", log)
        self.assertEqual([step for step, _ in self.losses(folder)], list(range(1, 161)))

    def test_a_request_to_stop_lets_the_ranks_save(self):
        own_cluster, folder, run = self.started(nodes=2, spares=0)
        self.wait_for_step(folder, 20)
        supervisors = [pid for pid in own_cluster.processes(own_cluster.nodes[0])
                       if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2] == [b"launch"]]  # fmt: skip
        subprocess.run(["kill", "-TERM", *supervisors], check=True)
        self.assertEqual(run.wait(120), 4, (folder / "log").read_text())
        last = max(line["step"] for line in self.metrics(folder))
        self.assertTrue((folder / f"run/step_{last:08d}/COMPLETE").exists())
        self.assertEqual(list((self.shared / "memory").glob("*/*")), [])


if __name__ == "__main__":
    if why := cluster.why_not():
        print(f"lost_nodes_test.py: skipped, {why}")
        sys.exit(77)
    unittest.main()
