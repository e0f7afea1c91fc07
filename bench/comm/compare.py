"""Collectives of our backends beside MPI's shared memory and torch's Gloo.

    cmake --build build/release --target bench_comm_threads bench_comm_mpi bench_comm_mpi_peer
    .deps/python/bin/python bench/comm/compare.py [--ours threads] [--ranks 2] [--rounds 7] [--peers mpi,gloo] [--output FILE.md]

In each round everyone runs once, in turns. Of a run the median of its batches counts; ratios are taken within a round,
and the table has the median and the range over the rounds.
"""
import argparse
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def parse(text):
    """Microseconds by (operation, bytes): the median of the batches and the least."""
    words = [line.split() for line in text.splitlines()]
    return {(line[0], int(line[1])): (float(line[2]), float(line[3])) for line in words if len(line) == 4}


def output_of(command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def run_threads(build, ranks):
    return parse(output_of([build / "bench/bench_comm_threads", str(ranks)]))


def run_mpi(build, ranks, *program):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    binding = ["--bind-to", "core"]
    if ranks > len(os.sched_getaffinity(0)):
        binding = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    command = ["mpirun", *binding, "-n", str(ranks), *(program or [build / "bench/bench_comm_mpi_peer"])]
    return parse(output_of(command, env=environment))


def run_gloo(_, ranks):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, HERE / "gloo_peer.py"]
    others = [subprocess.Popen([*command, str(rank), str(ranks), str(port)]) for rank in range(1, ranks)]
    times = parse(output_of([*command, "0", str(ranks), str(port)]))
    for other in others:
        other.wait()
    return times


OURS = {"threads": run_threads,
        "mpi": lambda build, ranks: run_mpi(build, ranks, build / "bench/bench_comm_mpi"),
        "mpi-rank-order": lambda build, ranks: run_mpi(build, ranks, build / "bench/bench_comm_mpi", "--rank-order")}
PEERS = {"mpi": run_mpi, "gloo": run_gloo}


def size_in_words(size):
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table(rounds, peers):
    heads = ["operation", "bytes", "ours, us", "our least, us"]
    heads += [head for peer in peers for head in (f"{peer}, us", f"ours to {peer}")]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for key in rounds[0]["ours"]:
        ours = [one["ours"][key] for one in rounds]
        cells = [key[0], size_in_words(key[1]), spread([median for median, _ in ours], 2)]
        cells.append(f"{min(least for _, least in ours):.2f}")
        for peer in peers:
            theirs = [one[peer].get(key) for one in rounds]
            if None in theirs:
                cells += ["", ""]
                continue
            cells.append(spread([median for median, _ in theirs], 2))
            cells.append(spread([own[0] / other[0] for own, other in zip(ours, theirs)], 2))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def machine():
    model = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    load = os.getloadavg()[0]
    return f"{len(model)} cores, {model[0]}, {platform.system()} {platform.machine()}, load average {load:.1f} at the start"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--ours", default="threads", choices=OURS)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", default="mpi,gloo", type=lambda text: [name for name in text.split(",") if name])
    parser.add_argument("--output", type=pathlib.Path, help="also write the table to this file")
    options = parser.parse_args()
    commit = output_of(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"]).strip()
    heading = f"{machine()}; ours: {options.ours}; {options.ranks} ranks; {options.rounds} rounds; commit {commit}\n\n"
    rounds = []
    for number in range(options.rounds):
        times = {"ours": OURS[options.ours](options.build, options.ranks)}
        times |= {peer: PEERS[peer](options.build, options.ranks) for peer in options.peers}
        rounds.append(times)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    text = heading + table(rounds, options.peers)
    if options.output:
        options.output.write_text(text)
    print(text)


main()
