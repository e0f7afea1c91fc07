"""What copies of the states in the memory of two nodes, and checkpoints beside training, cost a run of the demo's size.

    cmake --build build/release --target terrace_program
    python3 bench/train/memory_copies.py [--steps 800] [--every 16] [--seconds 4] [--checkpoint-seconds 30] [--demo-layout] [--build build/release]

Two ranks, each taken for a node (layout.ranks_per_node = 1), or with --demo-layout the eight of ./demo on two nodes, train the model of configs/demo.toml on the
corpus of ./demo, with few tokens in a step: then steps are short, and what a copy of all states takes stands out from what steps differ by themselves. Every
`--every` steps a copy is made, or a checkpoint, beside the steps that follow. The first half of the steps behind it is compared with the second half, in
the same run, so that other work on the machine touches both. The table has the median of the differences over all copies, with the quartiles, and what share of
the time that is where there is one each `--seconds` or `--checkpoint-seconds`. All cores compute, so what threads beside training do is in it.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
from demo_corpus import demo_corpus  # noqa: E402

WARM_UP = 64  # steps; the first two copies make their files

LAYOUTS = {
    "two ranks": (2, ["layout.pipeline=1", "layout.tensor=1", "layout.sequence_parallel=false", "layout.schedule=1f1b", "layout.ranks_per_node=1"]),
    "the demo's ranks": (8, ["layout.ranks_per_node=4"]),
}  # fmt: skip


def intervals(terrace, folder, name, steps, layout, *settings):
    """Seconds between the ends of one step and the next, by the number of the latter."""
    run, prefix = folder / name, demo_corpus()
    ranks, layout_settings = LAYOUTS[layout]
    values = [f"data.train=[\"{prefix}\"]", f"data.tokenizer={prefix.with_name('tokenizer.model')}", f"train.steps={steps}", "train.evaluate_every=0",
              "train.threads=1", "optimizer.warmup_steps=0", "train.global_batch=8", "train.micro_batch=1", "model.sequence=32", "checkpoint.every=0", f"checkpoint.folder={run}", *layout_settings, *settings]  # fmt: skip
    command = [terrace, "train", ROOT / "configs/demo.toml", "--ranks", str(ranks), "--no-doctor"]
    for value in values:
        command += ["--set", value]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_WAIT_POLICY": "passive"})
    if result.returncode != 0 or "could not be made" in result.stderr:
        raise SystemExit(result.stderr)
    ends = {line["step"]: line["time"] for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "loss" in line}
    return {step: ends[step] - ends[step - 1] for step in ends if step - 1 in ends}


def cell(values, unit, scale, digits):
    low, middle, high = (scale * value for value in statistics.quantiles(values, n=4))
    return f"{middle:.{digits}f}{unit} ({low:.{digits}f} to {high:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--every", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--checkpoint-seconds", type=float, default=30)
    parser.add_argument("--demo-layout", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options = parser.parse_args()
    terrace, every = options.build.resolve() / "terrace", options.every
    layout = "the demo's ranks" if options.demo_layout else "two ranks"
    ways = {"copy in memory": (options.seconds, f"checkpoint.memory_every={every}"),
            "checkpoint": (options.checkpoint_seconds, f"checkpoint.every={every}")}  # fmt: skip
    print(f"| {layout} | {every // 2} steps | longer | one each | share of the time |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        for number, (way, (interval, setting)) in enumerate(ways.items()):
            seconds = intervals(terrace, pathlib.Path(name), f"run_{number}", options.steps, layout, setting)
            longer, without = [], []
            # The last step makes none.
            for step in range(WARM_UP, options.steps - every, every):
                behind = [seconds[step + 1 + i] for i in range(every)]
                without.append(sum(behind[every // 2 :]))
                longer.append(sum(behind[: every // 2]) - without[-1])
            print(f"| {way} | {statistics.median(without):.2f} s | {cell(longer, ' ms', 1e3, 0)} | {interval:g} s | "
                  f"{cell(longer, '%', 100 / interval, 1)} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
