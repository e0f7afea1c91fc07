"""Starts the second process of a peer that runs on two, and passes on the lines that the first one reads."""
import os
import socket
import subprocess
import sys

RANKS = 2


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def start_other():
    """The second process; None in the second."""
    if "RANK" in os.environ:
        return None
    os.environ.update(
        RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port()
    )
    environment = {**os.environ, "RANK": "1", "LOCAL_RANK": "1"}
    return subprocess.Popen([sys.executable, *sys.argv], env=environment, stdin=subprocess.PIPE, stdout=sys.stderr, text=True)


def lines(other):
    """Of standard input, each passed on first."""
    for line in sys.stdin:
        if other:
            other.stdin.write(line)
            other.stdin.flush()
        yield line
