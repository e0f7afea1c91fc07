"""A job of four ranks on two nodes, which are network namespaces joined by a link whose rate can be set: makes the job, asks
its trainers for steps, and knows which bytes cross the link."""
import dataclasses
import json
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "step"), str(ROOT / "tests/house")]
from namespaces import Namespaces  # noqa: E402
from comparison import quartiles  # noqa: E402
from participant import Participant, busy_seconds, own_seconds  # noqa: E402

PROGRAM = ROOT / "build/release/bench/bench_slow_link_steps"
NODES, PER_NODE = 2, 2
RANKS = NODES * PER_NODE
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
# Ranks of a node exchange messages through the machine's shared memory, those of two nodes over TCP.
TRANSPORTS = "vader,tcp,self"
# Groups that move weights and gradients; the words that ranks agree on in other groups are short.
MOVEMENTS = {group + hop for group in ("shard_weights", "shard_gradients", "shard_optimizer", "replicas", "update") for hop in ("", "_node", "_rails")}


@dataclasses.dataclass
class Steps:
    """What some steps of one trainer took, each as a mean but for `seconds`, their median."""

    seconds: float
    sent: float  # bytes out of the first node over the link
    waited: float  # seconds in calls of groups that cross the link, as a mean over the ranks
    groups: dict
    mean_seconds: float
    votes: float  # seconds in the other calls that cross the link, as a mean over the ranks

    @classmethod
    def of(cls, answer):
        groups = {name: group for name, group in answer["groups"].items() if name in MOVEMENTS}
        waited = sum(group["waited"] for group in groups.values() if crosses(group))
        votes = sum(group["waited"] for name, group in answer["groups"].items() if name not in MOVEMENTS and crosses(group))
        return cls(statistics.median(answer["seconds"]), answer["sent"], waited, groups, statistics.mean(answer["seconds"]), votes)


def milliseconds(values):
    low, middle, high = (1e3 * value for value in quartiles(values))
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def node_of(rank):
    return rank // PER_NODE


def crosses(group):
    """Whether the group has ranks on both nodes."""
    return len({node_of(rank) for rank in group["ranks"]}) > 1


def crossing_bytes(groups):
    """Bytes out of a node in a step by the formulas: (with rings, with direct exchanges).

    A group counts what one rank sends. In a ring of the ranks in order one edge leaves each node, and carries as much; in
    a direct exchange each part goes to each rank of the other node."""
    ring = direct = 0.0
    for group in filter(crosses, groups.values()):
        size = len(group["ranks"])
        here = sum(node_of(rank) == 0 for rank in group["ranks"])
        at_a_time = PER_NODE // here  # groups like this one
        ring += at_a_time * group["bytes"]
        direct += at_a_time * group["bytes"] * here * (size - here) / (size - 1)
    return ring, direct


class Job(Participant):
    """Its trainers stay resident and take turns."""

    def __init__(self, settings):
        self.namespaces = Namespaces()
        super().__init__("bench_slow_link_steps", [PROGRAM, *settings], ENVIRONMENT)

    def __enter__(self):
        self.namespaces.__enter__()
        try:
            self.command = self.namespaces.mpi_command(self.command, (PER_NODE,) * NODES, TRANSPORTS)
            self.launch()
        except BaseException:
            self.namespaces.remove()
            raise
        return self

    def __exit__(self, kind, *_):
        # After an error the namespaces take their processes with them.
        if kind is None:
            self.stop()
        self.namespaces.remove()
        self.program.kill()
        self.program.wait()

    def ask(self, what, name, **more):
        self.program.stdin.write(json.dumps({"do": what, "name": name, **more}) + "\n")
        self.program.stdin.flush()
        return json.loads(" ".join(self.answer("answer", timeout=900)))

    def add(self, name, settings, micro_batch, micro_batches, apart=False, waits=False):
        """A trainer; with `apart` each rank trains by itself, with `waits` it waits for each call at once."""
        batch = micro_batch * micro_batches * (1 if apart else RANKS)
        return self.ask("add", name, settings=[*settings, f"train.global_batch={batch}"], apart=apart, waits=waits)["loss"]

    def steps(self, name, number):
        return Steps.of(self.ask("go", name, steps=number))

    def alone(self, name, groups):
        """Seconds that the calls of a step take between the nodes, one after another and with nothing computed meanwhile."""
        seconds = self.ask("repeat", name)
        return sum(seconds[group] for group, what in groups.items() if crosses(what))

    def cpu_seconds(self):
        """(that all programs of this machine have used, that the ranks have used)."""
        return busy_seconds(), sum(own_seconds(pid) for pid in self.namespaces.processes())

    def limit(self, megabits):
        self.namespaces.limit(megabits)
