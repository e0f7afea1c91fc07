"""Runs a command in a Slurm of its own: starts its daemons on this machine, waits until they serve, and stops them.

usage: slurm.py [--cpus N] [--nodes N | --device-nodes] COMMAND [ARGUMENTS...]

With --nodes it has so many nodes, which are all this machine and each with so many CPUs.
With --device-nodes it has nodes like those of Frontier and LUMI (partitions batch, extended, standard-g) and of DGX H100
(partition dgx), which are all this machine: jobs are accepted or refused as there (sbatch --test-only), and not to be run.

Needs root and Debian's slurm-wlm; exits with 77 where one is missing. In the command's environment SLURM_CONF names the
configuration and TERRACE_SLURM_FOLDER the scratch folder, in which the daemons' logs are."""
import argparse
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

CONFIGURATION = """
ClusterName=terrace
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool_%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd_%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd_%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=pmix
SlurmdParameters=config_overrides
FirstJobId={first_job}
ReturnToService=2
JobRequeue=1
"""

PARTITION = "PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"

# Two nodes of each kind. Frontier's cores have two hardware threads, of which its jobs get one where they do not ask for both.
DIES = "Sockets=1 CoresPerSocket=64 ThreadsPerCore=1 Gres=gpu:8 Feature=nvme"
DGX = "Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 Gres=gpu:8"
DEVICE_NODES = {"die1": DIES, "die2": DIES, "dgx1": DGX, "dgx2": DGX}
DEVICE_PARTITIONS = """AllowSpecResourcesUsage=yes
EnforcePartLimits=ALL
GresTypes=gpu
PartitionName=batch Nodes=die[1-2] MaxTime=2:00:00 State=UP
PartitionName=extended Nodes=die[1-2] MaxTime=1-00:00:00 State=UP
PartitionName=standard-g Nodes=die[1-2] MaxTime=2-00:00:00 State=UP
PartitionName=dgx Nodes=dgx[1-2] Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(number):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Slurm:
    """The daemons, for as long as the with-block lasts."""

    def __init__(self, cpus=8, device_nodes=False, nodes=1):
        self.host = socket.gethostname().split(".")[0]
        self.device_nodes = device_nodes
        names = [self.host] if nodes == 1 else [f"node{number}" for number in range(1, nodes + 1)]
        self.nodes = DEVICE_NODES if device_nodes else dict.fromkeys(names, f"CPUs={cpus}")
        self.daemons = []
        self.daemon_of_node = {}

    def __enter__(self):
        # Sockets have short names, so the folder is not in the tree.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="terrace_slurm_"))
        try:
            self.write_files()
            self.start("munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key",
                       f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                       f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")
            self.wait_until("munged", lambda: (self.folder / "munge.socket").exists())
            self.start("slurmctld", "-D", "-f", str(self.configuration))
            for node in self.nodes:
                self.start_node(node)
            self.wait_until("slurmd", lambda: set(self.ask("sinfo", "--noheader", "--format=%t").split()) == {"idle"})
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def write_files(self):
        for name in ("state", *(f"spool_{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(256))
        key.chmod(0o400)
        controller_port, *node_ports = free_ports(1 + len(self.nodes))
        self.configuration = self.folder / "slurm.conf"
        # PMIx and Open MPI name files of a machine by the number of the job; several of these Slurms may run at once.
        first_job = random.randrange(1, 10**6)
        text = CONFIGURATION.format(host=self.host, folder=self.folder, first_job=first_job, controller_port=controller_port)
        for (node, hardware), port in zip(self.nodes.items(), node_ports):
            text += f"NodeName={node} NodeHostname={self.host} NodeAddr=127.0.0.1 Port={port} {hardware} State=UNKNOWN\n"
        if len(self.nodes) > 1:
            text += "KillWait=2\n"  # seconds that srun waits for ranks that a node has lost
        self.configuration.write_text(text + (DEVICE_PARTITIONS if self.device_nodes else PARTITION))
        if self.device_nodes:
            for number in range(8):
                (self.folder / f"device{number}").touch()
            (self.folder / "gres.conf").write_text(f"NodeName={','.join(self.nodes)} Name=gpu File={self.folder}/device[0-7]\n")
        self.environment = {**os.environ, "SLURM_CONF": str(self.configuration), "TERRACE_SLURM_FOLDER": str(self.folder)}

    def start(self, *command):
        with open(self.folder / f"{command[0]}_{len(self.daemons)}.out", "w") as output:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=output, stderr=output))
        return self.daemons[-1]

    def start_node(self, node):
        self.daemon_of_node[node] = self.start("slurmd", "-D", "-f", str(self.configuration), "-N", node)

    def lose(self, node, with_daemon=False, every_step=False):
        """Kills what the node runs of the first step of a job, or of every step, so that nobody says how it ended; and its daemon,
        as with a node that fails."""
        if with_daemon:
            self.daemon_of_node[node].kill()
        lost = set()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                wanted = {b"SLURMD_NODENAME=" + node.encode(), b"SLURM_CONF=" + str(self.configuration).encode()}
                if not wanted | (set() if every_step else {b"SLURM_STEP_ID=0"}) <= set(variables):
                    continue
                lost.add(int(entry.name))
                if b"slurmstepd" in pathlib.Path(f"/proc/{parent}/cmdline").read_bytes():
                    lost.add(parent)
            except OSError:
                pass  # it has ended meanwhile
        # The daemon of the step first, which would tell of the end of its tasks.
        for identity in sorted(lost, key=lambda identity: b"slurmstepd" not in self.command_of(identity)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(identity, signal.SIGKILL)
        return lost

    @staticmethod
    def command_of(identity):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{identity}/cmdline").read_bytes()
        return b""

    def ask(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=30).stdout

    def wait_until(self, name, condition):
        for _ in range(300):
            if condition():
                return
            if any(daemon.poll() is not None for daemon in self.daemons):
                break
            time.sleep(0.1)
        logs = "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.*"))
                         if path.suffix in (".log", ".out"))
        raise RuntimeError(f"{name} did not come up\n{logs}")

    def stop(self):
        if len(self.daemons) > 1:
            subprocess.run(["scancel", "--user=root"], env=self.environment, capture_output=True, timeout=30)
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def why_not():
    """What is missing on this machine, or nothing."""
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun") if shutil.which(name) is None]
    if missing:
        return "not found: " + ", ".join(missing)
    return "" if os.getuid() == 0 else "needs root"


def main():
    parser = argparse.ArgumentParser(description="Runs a command in a Slurm of its own.")
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("--device-nodes", action="store_true")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if why := why_not():
        print(f"slurm.py: skipped, {why}")
        return 77
    with Slurm(arguments.cpus, arguments.device_nodes, arguments.nodes) as slurm:
        return subprocess.run(arguments.command, env=slurm.environment).returncode


if __name__ == "__main__":
    sys.exit(main())
