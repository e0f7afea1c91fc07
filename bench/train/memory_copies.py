"""What copies of the states in the memory of two nodes, and checkpoints beside training, cost a run of the demo's size.

    cmake --build build/release --target terrace_program
    python3 bench/train/memory_copies.py [--rounds 3] [--steps 60] [--seconds 4] [--checkpoint-seconds 30] [--build build/release]

Two ranks, each taken for a node (layout.ranks_per_node = 1), train the model of configs/demo.toml on the documents of this
project. In each round three runs take turns: without copies, with a copy in memory every `--seconds` of training, and with that
and a checkpoint every `--checkpoint-seconds`. Times are those between the lines of metrics.jsonl, so that hooks and threads
beside training count; the first ten steps of each run do not. Prints for each way the time in relation to that without copies in
the same round, the median of all rounds and the least and most, and the mean time for which a step with a copy is longer than the others.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARM_UP = 10


def prepare(terrace, folder):
    subprocess.run([terrace, "data", "prepare", ROOT / "docs", "--output", folder / "text", "--train-tokenizer", folder / "tokenizer.model",
                    "--vocabulary", "4096"], check=True, capture_output=True)  # fmt: skip


def times_of(terrace, folder, name, steps, *settings):
    """The time of each step, from the end of the one before to its own, after the first ones."""
    run = folder / name
    values = [f"data.train=[\"{folder}/text\"]", f"data.tokenizer={folder}/tokenizer.model", f"train.steps={steps}", "train.evaluate_every=0",
              "train.threads=1", "optimizer.warmup_steps=0", "layout.pipeline=1", "layout.tensor=1", "layout.sequence_parallel=false", "layout.schedule=1f1b",
              "checkpoint.every=0", f"checkpoint.folder={run}", *settings]  # fmt: skip
    command = [terrace, "train", ROOT / "configs/demo.toml", "--ranks", "2", "--no-doctor"]
    for value in values:
        command += ["--set", value]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_WAIT_POLICY": "passive"})
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    if "could not be made" in result.stderr:
        raise SystemExit(result.stderr)
    ends = [line["time"] for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "loss" in line]
    return [later - earlier for earlier, later in zip(ends, ends[1:])][WARM_UP:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--checkpoint-seconds", type=float, default=30)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options = parser.parse_args()
    terrace = options.build.resolve() / "terrace"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(terrace, folder)
        step = statistics.median(times_of(terrace, folder, "first", WARM_UP + 10))
        every, saves = max(1, round(options.seconds / step)), max(1, round(options.checkpoint_seconds / step))
        print(f"a step takes {step:.3f} s: a copy every {every} steps, a checkpoint every {saves}", flush=True)
        copies = ("layout.ranks_per_node=1", f"checkpoint.memory_every={every}")
        ways = {"without": (), "copies": copies, "copies and checkpoints": (*copies, f"checkpoint.every={saves}")}
        ratios, longer = {way: [] for way in ways}, {way: [] for way in ways}
        for number in range(options.rounds):
            totals = {}
            for way, settings in ways.items():
                times = times_of(terrace, folder, f"{way.replace(' ', '_')}_{number}", options.steps, *settings)
                totals[way] = sum(times)
                # Times begin with that of step WARM_UP + 2. A copy is made behind a step's line, in the time of the next.
                copied = [(WARM_UP + 1 + index) % every == 0 for index in range(len(times))]
                with_copy = [time for time, is_copied in zip(times, copied) if is_copied]
                others = [time for time, is_copied in zip(times, copied) if not is_copied]
                if with_copy and others:
                    longer[way].append(statistics.mean(with_copy) - statistics.median(others))
                ratios[way].append(totals[way] / totals["without"] - 1)
        print("| way | longer than without | a step with a copy is longer by |\n| --- | --- | --- |")
        for way in ways:
            share = [100 * ratio for ratio in ratios[way]]
            extra = f"{1000 * statistics.median(longer[way]):.0f} ms" if longer[way] else ""
            print(f"| {way} | {statistics.median(share):.1f}% ({min(share):.1f} to {max(share):.1f}) | {extra} |")


if __name__ == "__main__":
    main()
