"""What copies of the states in the memory of two nodes, and checkpoints beside training, cost a run of the demo's size.

    cmake --build build/release --target terrace_program
    python3 bench/train/memory_copies.py [--rounds 3] [--steps 60] [--every 4] [--seconds 4] [--checkpoint-seconds 30] [--build build/release]

Two ranks, each taken for a node (layout.ranks_per_node = 1), train the model of configs/demo.toml on the corpus of ./demo. In each
round three runs take turns: without copies, with a copy in memory every `--every` steps, and with a checkpoint so often, which is
much more often than anybody needs, so that their cost stands out. Times are those between the lines of metrics.jsonl, so that hooks
and threads beside training count; the first ten steps of each run do not. For each way the longer time of the run and its further
processor time are divided by the number of copies, and this by the interval that `--seconds` and `--checkpoint-seconds` give: the
share of the time that copies take there, of both cores for the processor time. Other work on the machine changes the processor
time little. The table has medians over the rounds, with the least and most.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
from demo_corpus import demo_corpus  # noqa: E402

RANKS = 2
WARM_UP = 10


def processor_seconds():
    """Of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def times_of(terrace, folder, name, steps, *settings):
    """The time of each step, from the end of the one before to its own, after the first ones, and the processor time of the run."""
    run, prefix = folder / name, demo_corpus()
    values = [f"data.train=[\"{prefix}\"]", f"data.tokenizer={prefix.with_name('tokenizer.model')}", f"train.steps={steps}", "train.evaluate_every=0",
              "train.threads=1", "optimizer.warmup_steps=0", "layout.pipeline=1", "layout.tensor=1", "layout.sequence_parallel=false", "layout.schedule=1f1b",
              "checkpoint.every=0", f"checkpoint.folder={run}", *settings]  # fmt: skip
    command = [terrace, "train", ROOT / "configs/demo.toml", "--ranks", str(RANKS), "--no-doctor"]
    for value in values:
        command += ["--set", value]
    before = processor_seconds()
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_WAIT_POLICY": "passive"})
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    if "could not be made" in result.stderr:
        raise SystemExit(result.stderr)
    ends = [line["time"] for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "loss" in line]
    return [later - earlier for earlier, later in zip(ends, ends[1:])][WARM_UP:], processor_seconds() - before


def cell(values, unit, scale, digits):
    least, middle, most = (scale * value for value in (min(values), statistics.median(values), max(values)))
    spread = f" ({least:.{digits}f} to {most:.{digits}f})" if len(values) > 1 else ""
    return f"{middle:.{digits}f}{unit}{spread}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--checkpoint-seconds", type=float, default=30)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options = parser.parse_args()
    terrace = options.build.resolve() / "terrace"
    every = options.every
    ways = {"copy in memory": (options.seconds, ("layout.ranks_per_node=1", f"checkpoint.memory_every={every}")),
            "checkpoint": (options.checkpoint_seconds, (f"checkpoint.every={every}",))}  # fmt: skip
    # The last step makes no copy, and its checkpoint is made in all ways.
    made = (options.steps - 1) // every
    made_after_warm_up = made - (WARM_UP + 1) // every
    longer, used = {way: [] for way in ways}, {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number in range(options.rounds):
            times, seconds = times_of(terrace, folder, f"without_{number}", options.steps)
            print(f"without: a step takes {statistics.median(times):.3f} s", file=sys.stderr, flush=True)
            for way, (_, settings) in ways.items():
                own_times, own_seconds = times_of(terrace, folder, f"{way.replace(' ', '_')}_{number}", options.steps, *settings)
                longer[way].append((sum(own_times) - sum(times)) / made_after_warm_up)
                used[way].append((own_seconds - seconds) / made)
    print("| each | longer | processor time | share of the time, one each | by time | by processor time |\n| --- | --- | --- | --- | --- | --- |")
    for way, (interval, _) in ways.items():
        print(f"| {way} | {cell(longer[way], ' ms', 1e3, 0)} | {cell(used[way], ' ms', 1e3, 0)} | {interval:g} s | "
              f"{cell(longer[way], '%', 100 / interval, 1)} | {cell(used[way], '%', 100 / interval / RANKS, 1)} |")  # fmt: skip


if __name__ == "__main__":
    main()
