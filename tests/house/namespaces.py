"""Runs a command under mpirun with two ranks, each in a network namespace of its own, joined by a veth pair: over TCP, as
between two machines.

usage: namespaces.py COMMAND [ARGUMENTS...]

Needs root, iproute2 and the right to make namespaces; exits with 77 where one is missing."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

# Called by mpirun in place of ssh: AGENT ADDRESS COMMAND...
AGENT = """#!/bin/sh
case $1 in {addresses[0]}) namespace={names[0]} ;; *) namespace={names[1]} ;; esac
shift
exec {inside} $namespace "$@"
"""


# NAMESPACE COMMAND...: there, on a machine of that name. Open MPI takes processes on machines of one name for neighbours.
INSIDE = """#!/bin/sh
name=$1
shift
exec ip netns exec $name unshare --uts sh -c "echo $name | tr _ - > /proc/sys/kernel/hostname; $*"
"""


class NotAllowed(Exception):
    pass


def ip(*arguments):
    run = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if run.returncode != 0:
        raise NotAllowed(f"ip {' '.join(arguments)}: {run.stderr.strip()}")


def run_in(name, *command):
    run = subprocess.run(["ip", "netns", "exec", name, *command], capture_output=True, text=True)
    if run.returncode != 0:
        raise NotAllowed(f"{' '.join(command)}: {run.stderr.strip()}")


class Namespaces:
    """Two namespaces that see only each other, for as long as the with-block lasts."""

    def __init__(self):
        number = os.getpid()
        self.names = [f"terrace_{number}_{side}" for side in "ab"]
        self.links = [f"tr{number}{side}" for side in "ab"]
        self.subnet = "10.77.0.0/24"
        self.addresses = ["10.77.0.1", "10.77.0.2"]

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        agent, inside = (pathlib.Path(self.folder.name) / name for name in ("agent", "inside"))
        agent.write_text(AGENT.format(names=self.names, addresses=self.addresses, inside=inside))
        inside.write_text(INSIDE)
        for script in (agent, inside):
            script.chmod(0o755)
        try:
            for name in self.names:
                ip("netns", "add", name)
            ip("link", "add", self.links[0], "type", "veth", "peer", "name", self.links[1])
            for name, link, address in zip(self.names, self.links, self.addresses):
                ip("link", "set", link, "netns", name)
                ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
                ip("-n", name, "link", "set", link, "up")
                ip("-n", name, "link", "set", "lo", "up")
                # Others, such as BBR, slow down now and then to measure the link.
                run_in(name, "sh", "-c", "echo reno > /proc/sys/net/ipv4/tcp_congestion_control")
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        subprocess.run(["kill", "-KILL", *self.processes()], capture_output=True)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", self.links[0]], capture_output=True)
        self.folder.cleanup()

    def processes(self):
        """The ids of those in the namespaces."""
        return [pid for name in self.names
                for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()]  # fmt: skip

    def limit(self, megabits):
        """The rate of the link in each direction, in Mbit/s; 0: no limit. Nothing is dropped, as in networks of clusters."""
        for name, link in zip(self.names, self.links):
            # A burst after a pause is 2 ms of the rate, or a packet as the kernel hands it on.
            rate = ["tbf", "rate", f"{megabits:.3f}mbit", "burst", f"{max(64, megabits / 4):.0f}kb", "limit", "256mb"]
            run_in(name, "tc", "qdisc", "replace", "dev", link, "root", *(rate if megabits else ["noqueue"]))

    def mpi_command(self, command, ranks=(1, 1), btl="tcp,self"):
        """Runs the command under mpirun, so many ranks in each; `btl` is what Open MPI moves messages with."""
        hosts = ",".join(f"{address}:{count}" for address, count in zip(self.addresses, ranks))
        settings = {"plm_rsh_agent": f"{self.folder.name}/agent", "btl": btl, "btl_tcp_if_include": self.subnet,
                    "oob_tcp_if_include": self.subnet, "hwloc_base_binding_policy": "none"}
        options = [word for name, value in settings.items() for word in ("--mca", name, value)]
        # Paths are the same in both, so nothing has to be copied.
        words = ["mpirun", *options, "-H", hosts, "-n", str(sum(ranks)), *map(str, command)]
        return [f"{self.folder.name}/inside", self.names[0], shlex.join(words)]

    def mpirun(self, command, output=None, error=None, ranks=(1, 1), environment=None):
        """So many ranks in each. Standard output and error go to the files, if they are given."""
        return subprocess.run(self.mpi_command(command, ranks), timeout=300, stdout=output, stderr=error, env=environment).returncode


def main():
    missing = [name for name in ("ip", "mpirun", "unshare") if shutil.which(name) is None]
    if missing or os.getuid() != 0:
        print(f"namespaces.py: skipped, {'not found: ' + ', '.join(missing) if missing else 'needs root'}")
        return 77
    try:
        with Namespaces() as namespaces:
            return namespaces.mpirun(sys.argv[1:])
    except NotAllowed as error:
        print(f"namespaces.py: skipped, this machine allows no namespaces: {error}")
        return 77


if __name__ == "__main__":
    sys.exit(main())
