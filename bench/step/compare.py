"""Our trainer beside PyTorch, eager and compiled, as installed and tuned, on the same model, data and optimizer.

    cmake --build build/release --target bench_step_trainer
    .deps/python/bin/python bench/step/compare.py [--workloads A,B,C] [--precisions fp32,bf16] [--peers NAME,...]
                                                  [--rounds 12] [--steps 3] [--output FILE.md]

All stay resident and take turns: in each round everyone runs a few steps and the fastest counts; the ratio to a peer is
taken within the round, and the table has its median and quartiles over the rounds. "Tuned" is what a careful user sets:
MKL told to take its AVX-512 kernels on any CPU, and a malloc that keeps its memory and uses huge pages.
"""
import argparse
import os
import pathlib
import platform
import statistics
import struct
import subprocess
import sys
import tempfile

import numpy as np

from participant import Failed, Participant
from workloads import WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = ("eager", "compile", "eager tuned", "compile tuned")


def write_corpus(prefix, vocabulary, tokens=2**18, document=2**14):
    """Random tokens as Megatron's .bin and .idx."""
    values = np.random.default_rng(1).integers(0, vocabulary, tokens, dtype=np.uint16)
    values.tofile(f"{prefix}.bin")
    lengths = np.full(tokens // document, document, dtype=np.int32)
    pointers = np.arange(len(lengths), dtype=np.int64) * document * 2
    documents = np.arange(len(lengths) + 1, dtype=np.int64)
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(lengths), len(documents)))
        for array in (lengths, pointers, documents):
            file.write(array.tobytes())


def tuned_environment(folder):
    library = folder / "fast_mkl.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, HERE / "fast_mkl.c"], check=True)
    return {
        "LD_PRELOAD": str(library),
        "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:"
        "glibc.malloc.top_pad=268435456:glibc.malloc.hugetlb=1",
    }


def participants(workload, precision, peers, folder):
    prefix = folder / "random"
    config = folder / f"{workload}_{precision}.toml"
    config.write_text(WORKLOADS[workload].config(prefix, precision, folder / "run"))
    ours = Participant("terrace", [ROOT / "build/release/bench/bench_step_trainer", config])
    tuned = tuned_environment(folder)
    all_of_them = [ours]
    for peer in peers:
        how, _, setting = peer.partition(" ")
        environment = dict(tuned) if setting else {}
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        command = [sys.executable, HERE / "peer.py", workload, precision, how, f"{prefix}.bin"]
        all_of_them.append(Participant(peer, command, environment))
    return all_of_them


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def measure(workload, precision, options, folder):
    """Rows of the table for one workload in one precision."""
    runners = participants(workload, precision, options.peers, folder)
    yardstick = Participant("products", [sys.executable, HERE / "products.py"])
    yardstick.start()
    for runner in list(runners):
        try:
            for start in range(options.starts):
                if start:
                    runner.stop()
                runner.start()
        except Failed as failure:
            print(failure, file=sys.stderr)
            runners.remove(runner)
    for number in range(options.rounds):
        yardstick.go(1)
        for runner in runners:
            runner.go(options.steps)
        print(f"{workload} {precision}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    for runner in [yardstick, *runners]:
        runner.stop()
    best_rate = 1e9 * max(rates[precision == "bf16"] for rates in yardstick.rounds)
    return [row(workload, precision, runner, runners[0], best_rate) for runner in runners], best_rate


def row(workload, precision, runner, ours, best_rate):
    shape = WORKLOADS[workload]
    fastest = [min(times) for times in runner.rounds]
    ratios = [theirs / min(own) for theirs, own in zip(fastest, ours.rounds)]
    low, middle, high = quartiles(ratios)
    tokens = 1e3 * shape.tokens / statistics.median(fastest)
    cells = [
        workload, precision, runner.name, f"{tokens:.0f}", f"{1e3 * shape.tokens / min(fastest):.0f}",
        "" if runner is ours else f"{middle:.2f} ({low:.2f} to {high:.2f})",
        f"{1e3 * shape.flops / min(fastest) / best_rate:.2f}",
        f"{runner.peak_bytes / 2**20:.0f}", "" if runner is ours else f"{ours.peak_bytes / runner.peak_bytes:.2f}",
        f"{runner.first_step_seconds:.1f}",
        f"{runner.first_losses[0]:.3f} {runner.last_loss:.3f}", f"{100 * statistics.median(runner.foreign):.0f}%",
    ]  # fmt: skip
    return cells


HEADINGS = [
    "", "type", "trainer", "tokens/s, median", "fastest", "ours to it (quartiles)", "share of products", "peak MiB",
    "ours to it", "first step s", "losses", "others' CPU",
]  # fmt: skip


def table(rows):
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + " --- |" * len(HEADINGS)]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in rows]) + "\n"


def machine():
    model = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{len(model)} cores, {model[0]}, {platform.system()} {platform.machine()}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="A,B,C", type=lambda text: text.split(","))
    parser.add_argument("--precisions", default="fp32,bf16", type=lambda text: text.split(","))
    parser.add_argument("--peers", default=PEERS, type=lambda text: [name for name in text.split(",") if name])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3, help="of each in a round")
    parser.add_argument("--starts", type=int, default=1, help="of each; the first step's time is the least")
    parser.add_argument("--output", help="also write the table to this file")
    return parser.parse_args()


def main():
    options = arguments()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    rows, rates = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_corpus(folder / "random", 8192)
        for workload in options.workloads:
            for precision in options.precisions:
                more, rate = measure(workload, precision, options, folder)
                rows += more
                rates.append(f"{workload} {precision} {rate / 1e9:.0f}")
                text = f"{machine()}; commit {commit.stdout.strip()}\n\nProducts, GFLOP/s: {', '.join(rates)}\n\n"
                text += table(rows)
                if options.output:
                    pathlib.Path(options.output).write_text(text)
    print(text)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    main()
