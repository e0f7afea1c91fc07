"""What comparisons of trainers have in common: corpus, settings of tuned peers, machine, arguments, tables."""
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

from participant import Failed
from workloads import token_type

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def corpus_in(folder, vocabulary, tokens=2**20, document=2**14):
    """The prefix of a corpus of random tokens, as Megatron's .bin and .idx; written where it is not there yet."""
    prefix = folder / f"random_{vocabulary}"
    if pathlib.Path(f"{prefix}.idx").exists():
        return prefix
    values = np.random.default_rng(1).integers(0, vocabulary, tokens, dtype=token_type(vocabulary))
    values.tofile(f"{prefix}.bin")
    lengths = np.full(tokens // document, document, dtype=np.int32)
    pointers = np.arange(len(lengths), dtype=np.int64) * document * values.itemsize
    documents = np.arange(len(lengths) + 1, dtype=np.int64)
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8 if values.itemsize == 2 else 4, len(lengths), len(documents)))
        for array in (lengths, pointers, documents):
            file.write(array.tobytes())
    return prefix


class HoldVectors(argparse.Action):
    """Holds ours and PyTorch, with its MKL and oneDNN, to the instructions of an older processor: what a faster one can say about it.
    MKL listens only where it takes the processor for Intel's, as in the tuned environment; else it uses AVX2 at most by itself."""

    def __call__(self, parser, options, value, option=None):
        options.vectors = value
        os.environ.update(ATEN_CPU_CAPABILITY=value, MKL_ENABLE_INSTRUCTIONS=value.upper(), ONEDNN_MAX_CPU_ISA=value.upper())


def tuned_environment(folder):
    """What a careful user sets: MKL set to take the kernels that it has for Intel's processors (with AVX-512 or AVX2), a malloc that
    keeps its memory and uses huge pages."""
    library = folder / "fast_mkl.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, HERE / "fast_mkl.c"], check=True)
    return {
        "LD_PRELOAD": str(library),
        "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:"
        "glibc.malloc.top_pad=268435456:glibc.malloc.hugetlb=1",
    }


def started(runners, starts=1):
    """Those that start, so many times each."""
    alive = []
    for runner in runners:
        try:
            for start in range(starts):
                if start:
                    runner.stop()
                runner.start()
            alive.append(runner)
        except Failed as failure:
            print(failure, file=sys.stderr)
    return alive


def take_turns(name, runners, options, before_round=lambda: None):
    for number in range(options.rounds):
        before_round()
        for runner in runners:
            runner.go(options.steps)
        print(f"{name}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def measured(name, participants, options):
    """The participants that start, after their turns; none unless the first one and another start. With
    options.processor_time their rounds are those of processor time."""
    runners = started(participants)
    compared = len(runners) > 1 and runners[0] is participants[0]
    if compared:
        take_turns(name, runners, options)
        if options.processor_time:
            for runner in runners:
                runner.rounds = runner.processor
    for runner in runners:
        runner.stop()
    return runners if compared else []


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def ratios(of, to, first=0):
    """How many times the tokens per second of `to` the ones of `of` are: quartiles over the rounds of `to`, which began when
    `of` had had so many."""
    return quartiles([min(theirs) / min(own) for theirs, own in zip(to.rounds, of.rounds[first:])])


def spread(low, middle, high):
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def table(headings, rows):
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in rows]) + "\n"


def machine():
    model = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    held = os.environ.get("ATEN_CPU_CAPABILITY")
    return f"{len(model)} cores, {model[0]}{f' held to {held}' if held else ''}, {platform.system()} {platform.machine()}; commit {commit.stdout.strip()}"


def names(text):
    return [name for name in text.split(",") if name]


def argument_parser(description, workloads, peers, rounds, steps):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default=workloads, type=names)
    parser.add_argument("--precisions", default=["fp32", "bf16"], type=names)
    parser.add_argument("--peers", default=peers, type=names)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--steps", type=int, default=steps, help="of each in a round")
    parser.add_argument("--vectors", choices=["avx2"], action=HoldVectors, help="hold all participants to these instructions")
    parser.add_argument("--output", help="also write the table to this file")
    return parser


def compare(options, measure, text_of):
    """Measures each workload in each precision; what there is so far goes to the output file after each."""
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    results, text = [], ""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for workload in options.workloads:
            for precision in options.precisions:
                results.append(measure(workload, precision, options, folder))
                text = f"{machine()}; {' '.join(sys.argv[1:])}\n\n{text_of(results)}"
                if options.output:
                    pathlib.Path(options.output).write_text(text)
    print(text)
