"""Held-out losses of copies that train by themselves (layout.outer_every) beside training that sums gradients in every step.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/convergence/outer_steps.py [--seeds 1,2,3] [--steps 128,256] [--rows 32:0.7:0.9,32:1:0] [--apart] [--precision fp32]
                                                             [--corpus PREFIX] [--folder FOLDER] [--output FILE.md] [section.key=value...]

Every run trains the model of ./demo (configs/demo.toml) on its corpus, which is made on first use, with two ranks of one thread and plain data parallelism, so that each
rank is a copy. A row is H:RATE:MOMENTUM, the steps between outer updates and what these have: 0.7 and 0.9 are the values of DiLoCo's paper (arXiv 2311.08105), and
1 and 0 continue from the mean of the copies. All rows of a seed begin with the same weights and see the same samples in the same steps. The first table has the loss of
all held-out text after the last step, and its ratio to training that sums gradients in every step, with the same seed: a mean over the seeds, and the smallest and the largest one.

The second table says what an outer update does: the training loss of the `around` steps before the updates of a part of the run, in which every copy has its own weights, and
of those behind them, which begin at common weights, both as ratios to the losses of the same steps, and so samples, where gradients are summed in every step.

With --apart, copies of the first seed save their weights halfway between the updates. Then the third table has how far they are from the common weights there (the root mean square
over the copies of |w - a|, over |a|), how much of that their mean has, 1 if all went the same way and 1 / sqrt(copies) if each went its own, and |a| and |b|. Its runs take 44 bytes a parameter
on the disk for each half of a round.

Settings at the end are given to every run, such as model.layers=2 model.width=64 for a smaller model. Runs lie in FOLDER (build/outer_steps); a finished one is not repeated,
and one that was interrupted continues.
"""
import argparse
import dataclasses
import json
import math
import pathlib
import struct
import sys

import numpy as np
from finished_runs import ROOT, digest, mean, place, say, validation_loss

sys.path.insert(1, str(ROOT / "bench"))
from demo_corpus import demo_corpus  # noqa: E402

RANKS = 2
AROUND = 4  # steps
BAR = 0.01
EVERY_STEP = "gradients in every step"
# Two copies of one rank each, in place of the demo's two copies of four ranks.
PLAIN = ["layout.pipeline=1", "layout.tensor=1", "layout.sequence_parallel=false", "layout.schedule=1f1b", "layout.sharding=ddp", "train.threads=1"]


@dataclasses.dataclass(frozen=True)
class Row:
    every: int  # 0: gradients are summed in every step
    rate: float = 0
    momentum: float = 0

    @classmethod
    def of(cls, text):
        every, rate, momentum = text.split(":")
        return cls(int(every), float(rate), float(momentum))

    @property
    def name(self):
        return f"every {self.every} steps, rate {self.rate:g}, momentum {self.momentum:g}" if self.every else EVERY_STEP

    def settings(self):
        if not self.every:
            return []
        return [f"layout.outer_every={self.every}", f"optimizer.outer_learning_rate={self.rate}", f"optimizer.outer_momentum={self.momentum}"]


@dataclasses.dataclass
class Run:
    row: Row
    steps: int
    loss: float
    losses: dict  # training loss by step
    folder: pathlib.Path


def train(row, steps, seed, corpus, options):
    saves = options.apart and row.every and seed == options.seeds[0]
    settings = [*PLAIN, f'data.train=["{corpus}"]', f"data.tokenizer={corpus.parent}/tokenizer.model", f"train.precision={options.precision}", f"train.seed={seed}",
                f"train.steps={steps}", f"train.evaluate_every={steps}", "train.evaluate_batches=0", *row.settings(), *options.settings,
                f"checkpoint.every={row.every // 2 if saves else 0}", "checkpoint.keep=0"]  # fmt: skip
    folder = options.folder.resolve() / f"{row.every}_{row.rate:g}_{row.momentum:g}-{steps}-{seed}-{digest(*settings)}"
    loss, seconds = validation_loss(folder, ROOT / "configs/demo.toml", RANKS, [*settings, f"checkpoint.folder={folder / 'run'}"])
    say(f"{steps} steps, seed {seed}, {row.name}: {loss:.4f} ({'was there' if seconds is None else f'{seconds:.0f} s'})")
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return Run(row, steps, loss, {line["step"]: line["loss"] for line in lines if "loss" in line}, folder)


def table(headings, lines):
    return "\n".join(["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings), *("| " + " | ".join(cells) + " |" for cells in lines)])


def loss_table(runs, options):
    lines = []
    for steps in options.steps:
        for row in options.rows:
            own, plain = ([runs[steps, seed, which].loss for seed in options.seeds] for which in (row, options.rows[0]))
            ratios = [a / b for a, b in zip(own, plain)]
            lines.append([str(steps), row.name, str(steps // row.every) if row.every else "", *(f"{loss:.4f}" for loss in own),
                          f"{mean(own):.4f}", f"{mean(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f})" if row.every else "",
                          ("yes" if mean(ratios) <= 1 + BAR else "no") if row.every else ""])  # fmt: skip
    return table(["steps", "row", "outer updates", *(f"seed {seed}" for seed in options.seeds), "mean", f"/ {EVERY_STEP}", f"within {BAR:.0%}"], lines)


def thirds(run):
    """The outer updates of the beginning, the middle and the end of the run that have steps on both sides."""
    updates = range(run.row.every, run.steps, run.row.every)
    return [updates[len(updates) * part // 3:len(updates) * (part + 1) // 3] for part in range(3)]


def update_table(runs, options):
    lines = []
    for steps in options.steps:
        for row in options.rows[1:]:
            cells = []
            for part in range(3):
                before, behind = [], []
                for seed in options.seeds:
                    run, plain = runs[steps, seed, row], runs[steps, seed, options.rows[0]]
                    for update in thirds(run)[part]:
                        for side, some in ((before, range(update - AROUND + 1, update + 1)), (behind, range(update + 1, update + AROUND + 1))):
                            side.append(mean([run.losses[step] / plain.losses[step] for step in some]))
                cells.append(f"{mean(before):.3f}, {mean(behind):.3f}" if before else "")
            lines.append([str(steps), row.name, *cells])
    return table(["steps", "row", "first third of the updates: before, behind", "second", "third"], lines)


def tensors_of(path):
    """The fp32 tensors of a safetensors file by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        begin = file.tell()
    data = np.memmap(path, mode="r")
    return {name: data[begin + what["data_offsets"][0]:begin + what["data_offsets"][1]].view(np.float32)
            for name, what in header.items() if name != "__metadata__"}  # fmt: skip


def apart(checkpoint):
    """(how far the copies are from the common weights, as a share of these, how much of that their mean has or None where they are not apart, the norms of the common weights and of the momentum)."""
    tensors = {}
    for path in checkpoint.glob("copies.rank_*.safetensors"):
        tensors.update(tensors_of(path))
    own = mean_of_all = whole = pushed = 0.0
    for name, common in tensors.items():
        if not name.endswith("common weights"):
            continue
        state = name.split(", ")[1]
        moves = [tensors[f"rank {rank}, {state}, weights"].astype(np.float64) - common for rank in range(RANKS)]
        own += sum(float(np.square(move).sum()) for move in moves) / RANKS
        mean_of_all += float(np.square(sum(moves) / RANKS).sum())
        whole += float(np.square(common.astype(np.float64)).sum())
        pushed += float(np.square(tensors[name.replace("common weights", "momentum")].astype(np.float64)).sum())
    return math.sqrt(own / whole), math.sqrt(mean_of_all / own) if own else None, math.sqrt(whole), math.sqrt(pushed)


def apart_table(runs, options):
    lines = []
    for steps in options.steps:
        for row in options.rows[1:]:
            run = runs[steps, options.seeds[0], row]
            for step in [*range(row.every // 2, steps, row.every), steps]:
                far, together, whole, pushed = apart(run.folder / f"run/step_{step:08d}")
                lines.append([str(steps), row.name, str(step), f"{100 * far:.1f}%", "" if together is None else f"{together:.2f}", f"{whole:.1f}", f"{pushed:.1f}"])
    return table(["steps", "row", "after step", "from the common weights", "their mean / their own", "norm of the common weights", "of the momentum"], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--steps", type=lambda text: [int(steps) for steps in text.split(",")], default=[128])
    parser.add_argument("--rows", type=lambda text: [Row.of(row) for row in text.split(",")], default=[Row(32, 0.7, 0.9), Row(32, 1, 0)])
    parser.add_argument("--apart", action="store_true", help="how far the copies are from each other")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--corpus", type=pathlib.Path, help="prefix of a prepared corpus with tokenizer.model beside it; without it, that of ./demo")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/outer_steps")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("settings", nargs="*")
    options = parser.parse_args()
    options.rows.insert(0, Row(0))
    corpus = (options.corpus or demo_corpus()).resolve()
    runs = {(steps, seed, row): train(row, steps, seed, corpus, options) for steps in options.steps for seed in options.seeds for row in options.rows}
    commit, machine = place()
    text = (f"`bench/convergence/outer_steps.py {' '.join(sys.argv[1:])}` at commit {commit}: the model of `./demo` in {options.precision}, {RANKS} copies of one rank; {machine}.\n\n"
            f"{loss_table(runs, options)}\n\nTraining losses around the outer updates, as ratios:\n\n{update_table(runs, options)}\n")  # fmt: skip
    if options.apart:
        text += f"\nHalfway between the outer updates and after the last one, seed {options.seeds[0]}:\n\n{apart_table(runs, options)}\n"
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
