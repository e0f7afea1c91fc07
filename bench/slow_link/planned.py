"""What `terrace plan` predicts for this machine's two nodes over a link of a given rate."""
import json
import math
import os
import re
import subprocess
import sys

from namespaces import Namespaces
from slow_link import ENVIRONMENT, PER_NODE, NODES, RANKS, ROOT, TRANSPORTS

PROGRAM = ROOT / "build/release/terrace"


def output_of(command, environment=None):
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if run.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {run.returncode}: {run.stderr[-2000:]}")
    return run.stdout


def calibrated(folder):
    """The description of two nodes with a free link. No job may wait beside them: its ranks look for messages all the time."""
    path = folder / "measured.toml"
    command = [PROGRAM, "calibrate", "--quick", "--threads", "1", "--name", "two-nodes", "--output", path]
    with Namespaces() as namespaces:
        output_of(namespaces.mpi_command(command, (PER_NODE,) * NODES, TRANSPORTS), ENVIRONMENT)
    return path.read_text()


class Planned:
    """Predicts on a description of the machine, for a program of machines/software or that of a file."""

    def __init__(self, settings, folder, description, software="terrace"):
        # The ranks name no machine, so nothing they move goes by rails.
        self.settings, self.folder, self.known = [*settings, "layout.route=flat"], folder, {}
        self.description, self.software = description, software
        self.config = folder / "planned.toml"
        self.config.write_text('[model]\nfamily = "gpt"\nvocabulary = 2048\n[train]\nsteps = 1\n')

    def machine(self, megabits):
        """The description with that rate out of a node."""
        path = self.folder / f"link_{megabits:.0f}.toml"
        before, network, after = self.description.partition('name = "network"')
        path.write_text(before + network + re.sub(r'link_bandwidth = ".*"', f'link_bandwidth = "{megabits:.3f} Mb/s"', after, count=1))
        return path

    def plan(self, settings, megabits):
        """What `terrace plan --json` prints."""
        key = (*settings, megabits)
        if key not in self.known:
            changes = [word for setting in (*self.settings, *settings) for word in ("--set", setting)]
            command = [PROGRAM, "plan", self.config, "--machine", self.machine(megabits), "--devices", str(RANKS), "--software", self.software, "--json", *changes]
            self.known[key] = json.loads(output_of(command))
        return self.known[key]

    def seconds(self, settings, megabits):
        """Of a step."""
        return self.plan(settings, megabits)["step_seconds"]

    @staticmethod
    def fine(rates, factor):
        """Rates from the lowest to the highest in small steps."""
        low, high = min(rates), max(rates)
        count = math.ceil(math.log(high / low) / math.log(factor))
        return [low * (high / low) ** (i / count) for i in range(count + 1)]


def rate_at(ratio, ratios):
    """The Mbit/s above which the ratio is no longer reached, or None; `ratios` has (Mbit/s, ratio), ascending in Mbit/s."""
    for (slow, above), (fast, below) in zip(ratios, ratios[1:]):
        if above >= ratio > below:
            return slow * (fast / slow) ** (math.log(above / ratio) / math.log(above / below))
    return None


def crossing(gains):
    """Between which rates quantizing begins to cost more than it saves; `gains` has (Mbit/s, plain / quantized), ascending."""
    rate = rate_at(1, gains)
    if rate is not None:
        return f"quantizing pays up to {rate:.0f} Mbit/s"
    if gains[0][1] < 1:
        return f"quantizing pays nowhere from {gains[0][0]:.0f} Mbit/s on"
    return f"quantizing pays everywhere up to {gains[-1][0]:.0f} Mbit/s"
