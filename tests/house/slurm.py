"""Runs a command in a Slurm of its own: starts its daemons on this machine, waits until they serve, and stops them.

usage: slurm.py [--cpus N] COMMAND [ARGUMENTS...]

Needs root and Debian's slurm-wlm; exits with 77 where one is missing. In the command's environment SLURM_CONF names the
configuration and TERRACE_SLURM_FOLDER the scratch folder, in which the daemons' logs are."""
import argparse
import contextlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

CONFIGURATION = """
ClusterName=terrace
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
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
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(number):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Slurm:
    """The daemons, for as long as the with-block lasts."""

    def __init__(self, cpus):
        self.cpus = cpus
        self.daemons = []

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
            self.start("slurmd", "-D", "-f", str(self.configuration), "-N", self.host)
            self.wait_until("slurmd", lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%t"))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def write_files(self):
        self.host = socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(256))
        key.chmod(0o400)
        controller_port, node_port = free_ports(2)
        self.configuration = self.folder / "slurm.conf"
        # PMIx and Open MPI name files of a machine by the number of the job; several of these Slurms may run at once.
        first_job = random.randrange(1, 10**6)
        self.configuration.write_text(CONFIGURATION.format(host=self.host, folder=self.folder, cpus=self.cpus, first_job=first_job,
                                                           controller_port=controller_port, node_port=node_port))
        self.environment = {**os.environ, "SLURM_CONF": str(self.configuration), "TERRACE_SLURM_FOLDER": str(self.folder)}

    def start(self, *command):
        with open(self.folder / f"{command[0]}.out", "w") as output:
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=output, stderr=output))

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
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if why := why_not():
        print(f"slurm.py: skipped, {why}")
        return 77
    with Slurm(arguments.cpus) as slurm:
        return subprocess.run(arguments.command, env=slurm.environment).returncode


if __name__ == "__main__":
    sys.exit(main())
