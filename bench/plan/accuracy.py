"""How close predictions for this machine are: the demo's configuration and others, predicted and measured.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/plan/accuracy.py [--data data/demo] [--rounds 3] [--steps 10] [--quick] [--output FILE.md]

`terrace calibrate` measures the machine with as many ranks as each layout has. Each layout then trains a few steps in each
round, in turns with the others, and a run's own record says how long its step was predicted to take and took
(predicted_step.json, measured_step.json). The table has the median of the rounds. Nothing else should compute on the machine.
The data are those that ./demo prepares.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "step")]
from comparison import machine, table  # noqa: E402

PROGRAM = ROOT / "build/release/terrace"
ONE_RANK = {"layout.pipeline": 1, "layout.tensor": 1, "layout.sequence_parallel": "false", "layout.schedule": "1f1b", "layout.sharding": "ddp"}
# Layouts by name: ranks, and what differs from the plain layout on one rank; the demo's own layout as it is.
LAYOUTS = {
    "the demo: tensor 2, pipeline 2, data 2, zb-h1": (8, None),
    "one rank": (1, {}),
    "one rank, fp32": (1, {"train.precision": "fp32"}),
    "tensor 2": (2, {"layout.tensor": 2}),
    "tensor 2, sequence parallel": (2, {"layout.tensor": 2, "layout.sequence_parallel": "true"}),
    "pipeline 2, 1f1b": (2, {"layout.pipeline": 2}),
    "pipeline 2, zb-h1": (2, {"layout.pipeline": 2, "layout.schedule": "zb-h1"}),
    "data 2, ddp": (2, {}),
    "data 2, zero1": (2, {"layout.sharding": "zero1"}),
    "data 2, zero3": (2, {"layout.sharding": "zero3"}),
    "data 2, zero3, recompute": (2, {"layout.sharding": "zero3", "train.recompute": "full"}),
    "tensor 2, pipeline 2": (4, {"layout.tensor": 2, "layout.pipeline": 2}),
}


def calibrated(ranks, folder, quick):
    """A description of the machine as so many ranks share it."""
    path = folder / f"machine_{ranks}.toml"
    print(f"calibrating with {ranks} ranks", file=sys.stderr, flush=True)
    subprocess.run([PROGRAM, "calibrate", "--ranks", str(ranks), "--output", path, *(["--quick"] if quick else [])], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def figures(record):
    """Seconds of the step, and bytes of the fullest rank."""
    return record["step_seconds"], max(sum(stage["memory_bytes"].values()) for stage in record["stages"])


def trained(number, ranks, changes, described, folder, arguments):
    """(predicted, measured) of one run, each (seconds, bytes)."""
    run = folder / f"run_{number}"
    settings = {"train.steps": arguments.steps, "optimizer.warmup_steps": 1, "train.evaluate_every": 0, "checkpoint.folder": run,
                "observe.machine": described, "data.train": json.dumps([str(arguments.data / "text")]),
                "data.tokenizer": arguments.data / "tokenizer.model", "train.precision": arguments.precision}
    settings |= {} if changes is None else ONE_RANK | changes
    command = [PROGRAM, "train", ROOT / "configs/demo.toml", "--ranks", str(ranks)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return [figures(json.loads((run / f"{kind}_step.json").read_text())) for kind in ("predicted", "measured")]


def has_bf16():
    return any(word in pathlib.Path("/proc/cpuinfo").read_text() for word in ("avx512_bf16", "amx_bf16"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data/demo")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--precision", default="bf16" if has_bf16() else "fp32")
    parser.add_argument("--quick", action="store_true", help="calibrate for half a minute in place of one to two")
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    results = {name: [] for name in LAYOUTS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        described = {ranks: calibrated(ranks, folder, arguments.quick) for ranks in sorted({ranks for ranks, _ in LAYOUTS.values()})}
        number = 0
        for turn in range(arguments.rounds):
            for name, (ranks, changes) in LAYOUTS.items():
                print(f"round {turn + 1} of {arguments.rounds}: {name}", file=sys.stderr, flush=True)
                results[name].append(trained(number, ranks, changes, described[ranks], folder, arguments))
                number += 1
    rows, errors = [], []
    for name, rounds in results.items():
        (seconds, size), = {predicted for predicted, _ in rounds}
        measured = sorted(seconds for _, (seconds, _) in rounds)
        median, held = statistics.median(measured), statistics.median(size for _, (_, size) in rounds)
        errors.append((abs(seconds / median - 1), abs(size / held - 1)))
        rows.append([name, f"{1e3 * seconds:.0f}", f"{1e3 * median:.0f} ({1e3 * measured[0]:.0f} to {1e3 * measured[-1]:.0f})",
                     f"{100 * (seconds / median - 1):+.1f}%", f"{size / 2**20:.1f}", f"{held / 2**20:.1f}", f"{100 * (size / held - 1):+.1f}%"])
    text = machine() + "\n\n" + table(["layout", "step predicted, ms", "measured, ms", "error", "memory predicted, MiB", "measured, MiB", "error"], rows)
    time, memory = zip(*errors)
    text += (f"\nTime: mean error {100 * statistics.mean(time):.1f}%, largest {100 * max(time):.1f}%. "
             f"Memory of a rank: mean {100 * statistics.mean(memory):.1f}%, largest {100 * max(memory):.1f}%.\n")
    print(text)
    if arguments.output:
        arguments.output.write_text(text)


if __name__ == "__main__":
    main()
