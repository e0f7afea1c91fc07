"""What the checks for silent corruption and for spikes cost: shares of a step of the model of ./demo.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/corruption/run.py [--steps 40] [--rounds 2] [--layouts ddp,zero1,zero3] [--output FILE.md]

Every ratio is of steps of one run, which stand beside each other. With check_states_every = 4 a check begins at the end of one step in four and ends in the
next one: the two steps of a check are compared with the two after them. With check_computation_every = 2 every other step is compared with the one before it. What
looks for spikes works in every step, so runs with and without it alternate, --rounds times, and each run's median step is compared with that of the run before.
A check every k steps costs the printed share of a step divided by k.
"""
import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(1, str(ROOT / "bench"))
from demo_corpus import demo_corpus  # noqa: E402

FOLDER = ROOT / "build/corruption"
WARMUP = 4  # steps
LAYOUTS = {
    "ddp": ["layout.sharding=ddp"],
    "zero1": ["layout.sharding=zero1"],
    "zero3": ["layout.sharding=zero3"],
    "pipeline": ["layout.pipeline=2", "layout.schedule=1f1b"],
}
PLAIN = ["layout.pipeline=1", "layout.tensor=1", "layout.sequence_parallel=false", "layout.schedule=1f1b"]


def step_seconds(layout, steps, settings):
    """Seconds of each step of a run of two ranks after the warm-up, by step."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    corpus = demo_corpus()
    keys = [*PLAIN, *LAYOUTS[layout], f"checkpoint.folder={FOLDER}", "checkpoint.every=0", "train.evaluate_every=0", "optimizer.warmup_steps=0", f"train.steps={steps}",
            "train.threads=1", "train.precision=fp32", f'data.train=["{corpus}"]', f"data.tokenizer={corpus.parent}/tokenizer.model", *settings]  # fmt: skip
    command = [ROOT / "build/release/terrace", "train", ROOT / "configs/demo.toml", "--ranks", "2"]
    for key in keys:
        command += ["--set", key]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (FOLDER / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["step_seconds"] for line in lines if "step_seconds" in line and line["step"] > WARMUP}


def quartiles(ratios):
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{100 * (middle - 1):.1f}% ({100 * (low - 1):.1f}% to {100 * (high - 1):.1f}%)"


def states(layout, steps):
    seconds = step_seconds(layout, steps, ["train.check_states_every=4"])
    ratios = []
    for step in range(WARMUP + 4, steps - 4, 4):
        with_check, without = seconds[step] + seconds[step + 1], seconds[step + 2] + seconds[step + 3]
        ratios.append(1 + 2 * (with_check / without - 1))  # of one step
    return ratios


def computation(layout, steps):
    seconds = step_seconds(layout, steps, ["train.check_computation_every=2"])
    return [seconds[step] / seconds[step - 1] for step in range(WARMUP + 2, steps, 2)]


def spikes(layout, steps, rounds):
    ratios = []
    for _ in range(rounds):
        without = step_seconds(layout, steps, [])
        watched = step_seconds(layout, steps, ["train.on_spike=warn", "train.spike_window=10"])
        ratios += [watched[step] / without[step] for step in watched]
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--layouts", type=lambda text: text.split(","), default=["ddp", "zero1", "zero3"])
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    rows = ["| two ranks | a check of states | a check of computation | looking for spikes, each step |", "| --- | --- | --- | --- |"]
    for layout in options.layouts:
        rows.append(f"| `{layout}` | {quartiles(states(layout, options.steps))} | {quartiles(computation(layout, options.steps))} | "
                    f"{quartiles(spikes(layout, options.steps, options.rounds))} |")  # fmt: skip
        print(rows[-1], file=sys.stderr, flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    text = (f"`bench/corruption/run.py {' '.join(sys.argv[1:])}` at commit {commit}: the model of `./demo` in fp32, micro-batches of 2 of 16 sequences, one thread a "
            f"rank; {os.cpu_count()} cores, {platform.system()} {platform.machine()}. Shares of a step, medians with quartiles.\n\n" + "\n".join(rows) + "\n")  # fmt: skip
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
