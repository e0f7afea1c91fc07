"""Nodes of a cluster on this machine: network namespaces behind one switch, each with a host name of its own, in which mpirun
starts ranks over TCP. A node can be lost.

Needs root, iproute2 and the right to make namespaces."""
import itertools
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from namespaces import INSIDE, NotAllowed, ip  # noqa: E402

# Called by mpirun in place of ssh: AGENT ADDRESS COMMAND... A node that is lost answers nothing.
AGENT = """#!/bin/sh
namespace={prefix}_${{1##*.}}
shift
[ -e /run/netns/$namespace ] || {{ sleep 600; exit 1; }}
exec {inside} $namespace "$@"
"""


class Cluster:
    """`nodes` namespaces, for as long as the with-block lasts; a node is known by its address."""

    numbers = itertools.count()

    def __init__(self, nodes):
        self.prefix = f"terrace_{os.getpid()}_{next(Cluster.numbers)}"
        self.switch = f"{self.prefix}_switch"
        self.nodes = [f"10.78.0.{number}" for number in range(1, nodes + 1)]
        self.stopped = []

    def namespace(self, node):
        return f"{self.prefix}_{node.rsplit('.', 1)[1]}"

    def host(self, node):
        return self.namespace(node).replace("_", "-")

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.agent, self.inside = (pathlib.Path(self.folder.name) / name for name in ("agent", "inside"))
        self.agent.write_text(AGENT.format(prefix=self.prefix, inside=self.inside))
        self.inside.write_text(INSIDE)
        for script in (self.agent, self.inside):
            script.chmod(0o755)
        try:
            ip("netns", "add", self.switch)
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
            for node in self.nodes:
                name, port = self.namespace(node), f"port{node.rsplit('.', 1)[1]}"
                ip("netns", "add", name)
                ip("link", "add", "netns", name, "name", "wire", "type", "veth", "peer", "name", port, "netns", self.switch)
                ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")
                ip("-n", name, "addr", "add", f"{node}/24", "dev", "wire")
                ip("-n", name, "link", "set", "wire", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        if self.stopped:
            subprocess.run(["kill", "-KILL", *self.stopped], capture_output=True)
        for node in self.nodes:
            self.lose(node)
        subprocess.run(["ip", "netns", "del", self.switch], capture_output=True)
        self.folder.cleanup()

    def processes(self, node):
        return subprocess.run(["ip", "netns", "pids", self.namespace(node)], capture_output=True, text=True).stdout.split()

    def lose(self, node, memory=None):
        """Kills everything on the node, which does not come back, and removes what its memory held, folders of its host's name
        below `memory`."""
        while processes := self.processes(node):
            subprocess.run(["kill", "-KILL", *processes], capture_output=True)
            time.sleep(0.01)
        self.forget(node, memory)

    def silence(self, node, memory=None):
        """The same for a node that neither answers nor closes a connection: its wire is cut, and its processes stand still."""
        processes = self.processes(node)
        subprocess.run(["ip", "-n", self.namespace(node), "link", "del", "wire"], capture_output=True)
        subprocess.run(["kill", "-STOP", *processes], capture_output=True)
        self.stopped += processes
        self.forget(node, memory)

    def forget(self, node, memory):
        subprocess.run(["ip", "netns", "del", self.namespace(node)], capture_output=True)
        for folder in pathlib.Path(memory).glob(f"*/{self.host(node)}") if memory else ():
            shutil.rmtree(folder)

    def environment(self):
        """With which mpirun finds the nodes."""
        settings = {"plm_rsh_agent": self.agent, "btl": "tcp,self", "btl_tcp_if_include": "10.78.0.0/24",
                    "oob_tcp_if_include": "10.78.0.0/24", "hwloc_base_binding_policy": "none",
                    "mpi_yield_when_idle": 1, "rmaps_base_oversubscribe": 1}  # fmt: skip
        return os.environ | {f"OMPI_MCA_{name}": str(value) for name, value in settings.items()} | {
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_WAIT_POLICY": "passive"}  # fmt: skip

    def start(self, command, **options):
        """Starts a command on the first node."""
        words = [self.inside, self.namespace(self.nodes[0]), shlex.join(map(str, command))]
        return subprocess.Popen(words, env=self.environment(), **options)


def why_not():
    """What is missing on this machine, or nothing."""
    missing = [name for name in ("ip", "mpirun", "unshare") if shutil.which(name) is None]
    if missing:
        return "not found: " + ", ".join(missing)
    if os.getuid() != 0:
        return "needs root"
    try:
        with Cluster(1):
            return ""
    except NotAllowed as error:
        return f"this machine allows no namespaces: {error}"
