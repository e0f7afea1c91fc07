"""How long a run of the demo's size takes from the death of a node to its next step, part by part.

    cmake --build build/release --target terrace_program
    python3 bench/train/lost_node.py [--rounds 3] [--memory-every 10] [--demo-layout] [--build build/release]

The model and the corpus are those of ./demo. Two nodes, which are network namespaces of this machine (tests/house/cluster.py), with
one data-parallel rank each, or with --demo-layout four ranks each in the layout of ./demo, train under `terrace launch --run` with
mpirun and copies of their states in memory. In each round each of these happens to the second node: all its processes are killed, with a spare node and without one, or its wire is cut while its
processes stand still. What it had in memory is gone in all of them. Prints the times that the supervisor writes into failures.jsonl:
the median over the rounds, the longest of all, and the steps that were made again.

Needs root and the right to make namespaces; exits with 77 without."""
import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/house")]
import cluster  # noqa: E402
from demo_corpus import demo_corpus  # noqa: E402

# The ranks of all nodes share the cores of this machine.
MACHINE = """name = "namespaces"
[device]
name = "a share of this machine's cores"
memory = "1 GiB"
memory_bandwidth = "2 GB/s"
kernel_time = "3 us"
launch_time = "0 us"
[device.fp32]
peak = "60 GFLOP/s"
achievable = "40 GFLOP/s"
[device.bf16]
peak = "60 GFLOP/s"
achievable = "40 GFLOP/s"
[[tiers]]
name = "node"
devices = {of_node}
link_bandwidth = "1 GB/s"
latency = "20 us"
[[tiers]]
name = "network"
devices = {of_all}
link_bandwidth = "1 GB/s"
latency = "50 us"
"""
PARTS = {"noticing": "noticed", "ending": "ranks ended", "choosing": "nodes chosen", "starting": "ranks started",
         "reading": "state read, and the next step", "all": "all"}  # fmt: skip
WAYS = ["killed, with a spare", "killed, without a spare", "silent, with a spare"]


def lines_of(path):
    try:
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    except OSError:
        return []


def wait_for(what, condition, run, log, seconds=300):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if run.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"no {what}:\n{log.read_text()}")
        time.sleep(0.05)
    return found


ONE_STAGE = {"layout.pipeline": 1, "layout.tensor": 1, "layout.sequence_parallel": "false", "layout.schedule": "1f1b"}


def settings(folder, prefix, options):
    values = ({} if options.demo_layout else ONE_STAGE) | {"data.train": f'["{prefix}"]', "data.tokenizer": prefix.with_name("tokenizer.model"), "train.steps": 100000, "train.evaluate_every": 0,
              "train.threads": 1, "checkpoint.every": 0, "checkpoint.folder": folder / "run", "checkpoint.memory_every": options.memory_every,
              "checkpoint.memory_folder": folder / "memory"}  # fmt: skip
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def outage(options, way, prefix):
    """The seconds of one outage by part, and how many steps were made again."""
    spares = 0 if "without" in way else 1
    with cluster.Cluster(2 + spares) as nodes, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        of_node = 4 if options.demo_layout else 1
        (folder / "nodes.toml").write_text(MACHINE.format(of_node=of_node, of_all=3 * of_node))
        log = folder / "log"
        command = [options.build.resolve() / "terrace", "launch", ROOT / "configs/demo.toml", "--machine", folder / "nodes.toml", "--nodes", 2,
                   "--spares", spares, "--with", "mpirun", "--run", "--hosts", ",".join(nodes.nodes), *settings(folder, prefix, options)]  # fmt: skip
        with open(log, "w") as file:
            run = nodes.start(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=file)
        last = lambda: max((line.get("step", 0) for line in lines_of(folder / "run/metrics.jsonl")), default=0)
        # Two copies, and half of the way to the third.
        step = 2 * options.memory_every + options.memory_every // 2
        wait_for(f"step {step}", lambda: last() >= step, run, log)
        made = last()
        (nodes.silence if "silent" in way else nodes.lose)(nodes.nodes[1], folder / "memory")
        found = wait_for("step after the loss", lambda: [line for line in lines_of(folder / "run/failures.jsonl") if "seconds" in line], run, log)
        supervisors = [int(pid) for pid in nodes.processes(nodes.nodes[0])
                       if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2] == [b"launch"]]  # fmt: skip
        subprocess.run(["kill", f"-{signal.SIGTERM.value}", *map(str, supervisors)], check=True)
        run.wait(120)
        return found[0]["seconds"], made - (found[0]["step"] - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory-every", type=int, default=10)
    parser.add_argument("--demo-layout", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options = parser.parse_args()
    if why := cluster.why_not():
        print(f"lost_node.py: skipped, {why}")
        sys.exit(77)
    prefix = demo_corpus()
    found = {way: [] for way in WAYS}
    for number in range(options.rounds):
        for way in WAYS:
            found[way].append(outage(options, way, prefix))
            print(f"round {number + 1}, {way}: {found[way][-1][0]['all']:.1f} s", file=sys.stderr, flush=True)
    print(f"| the node is | {' | '.join(PARTS.values())} | longest of {options.rounds} | steps made again |")
    print("| --- " * (len(PARTS) + 3) + "|")
    for way, outages in found.items():
        medians = [statistics.median(seconds[part] for seconds, _ in outages) for part in PARTS]
        again = [steps for _, steps in outages]
        print(f"| {way} | {' | '.join(f'{value:.2f} s' for value in medians)} | {max(seconds['all'] for seconds, _ in outages):.2f} s | "
              f"{min(again)} to {max(again)} |")  # fmt: skip


if __name__ == "__main__":
    main()
