"""What the tests of launch share: a machine of two ranks a node, a program that stands for terrace train, and jobs in a Slurm of
the test's own."""
import json
import pathlib
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "house"))
import slurm  # noqa: E402
from commands_test import TINY, CommandTest, terrace  # noqa: E402

MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
}  # fmt: skip

# A cluster of one's own: nodes of two ranks on a core each.
CLUSTER = """name = "ours"
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
devices = 2
link_bandwidth = "4 GB/s"
latency = "2 us"
[[tiers]]
name = "network"
devices = 8
link_bandwidth = "1 GB/s"
latency = "20 us"
[storage]
node_bandwidth = "1 GB/s"
total_bandwidth = "1 GB/s"
[launch]
partition = "test"
cores_per_rank = 1
environment = ["SEEN_BY_ALL=$SLURM_JOB_ID"]
one_node_environment = ["SEEN_ON_ONE_NODE=yes"]
rank_environment = ["SEEN_BY_RANK=$SLURM_LOCALID"]
"""

# The program in place of a run, which leaves in its folder: `checkpoint N`, `steps N` of its metrics, and `state WORD
# N`, which says how its process has ended, or that it runs, after N steps. `finish` ends it as a run of the 4 steps
# that has made them all.
LEAVES = """folder=$(dirname "$0")
cd "$folder" || exit 1
checkpoint() { mkdir -p "$(printf 'run/step_%08d' "$1")"; touch "$(printf 'run/step_%08d/COMPLETE' "$1")"; }
steps() { for step in $(seq "$1"); do printf '{"step":%d,"loss":3.25}\\n' "$step"; done > run/metrics.jsonl; }
state() {
  printf '{\\n  "job": "%s",\\n  "process": "%s",\\n  "ranks": 2,\\n  "reason": "",\\n  "state": "%s",\\n  "step": %d\\n}\\n' \\
    "$SLURM_JOB_ID" "$$ of start ${SLURM_RESTART_COUNT:-0}" "$1" "$2" > run/.process.json
}
finish() { state finished 4; exit 0; }
"""

# Stands for terrace train where a test needs an exit code of its choice: each start runs the next line of `plan`. One rank
# counts the starts and does it; the other follows its exit code.
PROGRAM = f"""#!/bin/bash
{LEAVES}
start=$(($(cat starts 2>/dev/null) + 1))
if [ "$SLURM_LOCALID" = 1 ]; then sleep 0.5; exit 0; fi
echo "$start" > starts
echo "rank $SEEN_BY_RANK of job $SEEN_BY_ALL, one node: $SEEN_ON_ONE_NODE"
eval "$(sed -n "${{start}}p" plan)"
"""


class Launching(CommandTest):
    def write_files(self, folder):
        (folder / "run.toml").write_text(TINY.replace("steps = 4", "steps = 4\ncheck_memory = false"))
        (folder / "ours.toml").write_text(CLUSTER)
        return folder

    def launch(self, folder, *more, nodes=1, machine="ours.toml", environment=None):
        return terrace("launch", "run.toml", "--nodes", nodes, "--machine", machine, *more, folder=folder,
                       **(environment or {}))


class SlurmJobs(Launching):
    """Submits jobs to a Slurm of its own."""

    NODES, PROGRAM = 1, PROGRAM

    @classmethod
    def setUpClass(cls):
        own = slurm.Slurm(cpus=8, nodes=cls.NODES)
        cls.slurm = own.__enter__()
        cls.addClassCleanup(own.__exit__)

    def environment(self):
        return MPI | {name: self.slurm.environment[name] for name in ("SLURM_CONF", "TERRACE_SLURM_FOLDER")}

    def status(self, folder):
        result = self.expect(0, terrace("status", "run", "--json", folder=folder, **self.environment()))
        return json.loads(result.stdout)["runs"][0]

    def wait_for(self, folder, condition, what, seconds=150):
        """The first status for which the condition holds."""
        deadline, status = time.monotonic() + seconds, None
        while time.monotonic() < deadline:
            status = self.status(folder)
            if condition(status):
                return status
            time.sleep(0.3)
        logs = "\n".join(path.read_text() for path in folder.glob("*.log"))
        self.fail(f"no {what} within {seconds} s: {status}\n{logs}")

    def submit(self, folder, *more, nodes=1, **environment):
        """The number of the job, which is submitted with these variables besides."""
        result = self.expect(0, self.launch(folder, "--submit", *more, nodes=nodes, environment=self.environment() | environment))
        return re.match(r"job (\d+): see terrace status ", result.stdout)[1]

    def planned(self, *lines, folder=None):
        """A folder with the program that does what the lines say, one at each start."""
        folder = self.write_files(folder or self.scratch())
        (folder / "program").write_text(self.PROGRAM)
        (folder / "program").chmod(0o755)
        (folder / "plan").write_text("\n".join(lines) + "\n")
        return folder

    def ended(self, folder, job):
        """The log of the job once it is over and does not wait in the queue."""
        def is_over(_):
            states = self.slurm.ask("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}").split()
            return bool(states) and states[0] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
        self.wait_for(folder, is_over, "end of the job")
        return (folder / f"terrace-run-{job}.log").read_text()
