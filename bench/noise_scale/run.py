"""The gradient noise scale of a small GPT on the corpus of ./demo, and the steps and tokens that batches around it take to one loss.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/noise_scale/run.py [--seeds 1,2] [--loss 5.3] [--batch 32] [--corpus PREFIX] [--folder FOLDER] [--output FILE.md]

First a run for each seed with the batch --batch measures the noise scale in every step until its validation loss is --loss. The noise
scale N is the mean over these steps without the warm-up, and over the seeds: the number that the paper's relation of steps and tokens
has, if it holds at each step (McCandlish et al., arXiv 1812.06162, appendix D). Then runs with batches of N/4, N and 4 N samples train
until the same loss, which is interpolated between evaluations. Beside their steps and tokens, as multiples of those with N, stands the
paper's relation: 1 + N/B times the fewest steps and 1 + B/N times the fewest tokens, each with its best learning rate. So each batch
is trained with each seed at a rate proportional to 1 / sqrt(1 + N/B) and at half and twice it, and the fewest steps count; a run stops
where it has taken as many steps as the best one of its batch and seed so far.

Runs lie in FOLDER (build/noise_scale); one that has reached the loss is not repeated.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(1, str(ROOT / "bench"))
from demo_corpus import demo_corpus  # noqa: E402

TERRACE = ROOT / "build/release/terrace"
RANKS = 2
WARMUP = 20  # steps
SEQUENCE = 64
PEAK = 2e-3  # the learning rate with a batch of N samples
CONFIG = f"""# A run of bench/noise_scale/run.py; everything else is on its command line.
[model]
family = "gpt"
layers = 2
width = 64
heads = 2
ffn_width = 256
sequence = {SEQUENCE}
vocabulary = 4096
positions = "rotary"

[data]
train = ["{{corpus}}"]
validation_share = 0.01

[train]
global_batch = 32
steps = 1000000
threads = 1
log_every = 1000

[optimizer]
learning_rate = {PEAK}
schedule = "constant"
warmup_steps = {WARMUP}
weight_decay = 0.1
clip = 1.0

[checkpoint]
folder = "{{folder}}"
"""


def say(text):
    print(text, file=sys.stderr, flush=True)


def lines_of(folder):
    """The lines of a run's metrics; the last one may be half written."""
    path = folder / "run/metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def reached(lines, loss):
    """The steps, a fraction of one included, after which the validation loss is as low; None before that."""
    before = None
    for line in lines:
        if "validation_loss" not in line:
            continue
        now = (line["step"], line["validation_loss"])
        if now[1] <= loss:
            if before is None:
                return now[0]
            share = (before[1] - loss) / (before[1] - now[1])
            return before[0] + share * (now[0] - before[0])
        before = now
    return None


def trained(folder, corpus, loss, settings, most=math.inf):
    """The steps to the loss of a run with these settings, infinite if they are more than `most`, and its metrics."""
    def result():
        lines = lines_of(folder)
        steps = reached(lines, loss)
        return math.inf if steps is None and lines and lines[-1]["step"] >= most else steps

    steps = result()
    if steps is None:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "config.toml"
        config.write_text(CONFIG.format(corpus=corpus, folder=folder / "run"))
        command = [TERRACE, "train", config, "--ranks", str(RANKS), "--resume", "auto"]
        for setting in settings:
            command += ["--set", setting]
        with open(folder / "log.txt", "a", encoding="utf-8") as log, subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log) as run:
            while steps is None and run.poll() is None:
                time.sleep(0.5)
                steps = result()
            if run.poll() is None:
                run.send_signal(signal.SIGTERM)
        if steps is None:
            sys.exit(f"{' '.join(map(str, command))} ended before the loss {loss}; see {folder / 'log.txt'}")
    return steps, lines_of(folder)


def settings_of(batch, seed, learning_rate, evaluations_per_step):
    return [f"train.global_batch={batch}", f"train.seed={seed}", f"optimizer.learning_rate={learning_rate:.4g}",
            f"train.evaluate_every={max(1, round(evaluations_per_step))}"]  # fmt: skip


def noise_scale_of(lines, steps):
    """The mean over the steps to the loss, without the warm-up."""
    values = [line["noise_scale"] for line in lines if line.get("noise_scale") is not None and WARMUP < line["step"] <= steps]
    return statistics.mean(values), min(values), max(values)


def rounded(batch):
    """To a multiple of the ranks."""
    return max(RANKS, RANKS * round(batch / RANKS))


def fitted(results):
    """The noise scale with which the relation fits the steps best, by least squares of logarithms."""
    def error(noise):
        terms = [math.log(steps / (1 + noise / batch)) for batch, _, steps in results]
        return statistics.pvariance(terms)
    return min((2 ** (exponent / 16) for exponent in range(0, 16 * 14)), key=error)


def table_of(results, noise, middle):
    """A row for each batch: mean steps and tokens, their ratios to those of the middle batch, and the relation's."""
    headings = ["batch", "/ N", "steps, by seed", "tokens, by seed", "steps / those of N", "formula", "tokens / those of N", "formula"]
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    seeds = sorted({seed for _, seed, _ in results})
    steps = {(batch, seed): value for batch, seed, value in results}
    for batch in sorted({batch for batch, _, _ in results}):
        own = [steps[batch, seed] for seed in seeds]
        ratios = [steps[batch, seed] / steps[middle, seed] for seed in seeds]
        formula = (1 + noise / batch) / (1 + noise / middle)
        tokens = [ratio * batch / middle for ratio in ratios]
        spread = lambda values: f"{statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"  # noqa: E731
        cells = [str(batch), f"{batch / noise:.2f}", ", ".join(f"{value:.0f}" for value in own),
                 ", ".join(f"{value * batch * SEQUENCE / 1e6:.2f}M" for value in own), spread(ratios), f"{formula:.3f}", spread(tokens),
                 f"{formula * batch / middle:.3f}"]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1, 2])
    parser.add_argument("--loss", type=float, default=5.3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--corpus", type=pathlib.Path, help="prefix of a prepared corpus; without it, that of ./demo")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/noise_scale")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    began = time.monotonic()
    corpus, folder = (options.corpus or demo_corpus()).resolve(), options.folder.resolve()
    estimates = []
    for seed in options.seeds:
        settings = settings_of(options.batch, seed, PEAK, 1024 / options.batch)
        steps, lines = trained(folder / f"estimate-{seed}", corpus, options.loss,
                               [*settings, "train.noise_scale_every=1", f"train.micro_batch={options.batch // RANKS // 4}"])  # fmt: skip
        estimates.append(noise_scale_of(lines, steps))
        say(f"seed {seed}: noise scale {estimates[-1][0]:.1f} ({estimates[-1][1]:.1f} to {estimates[-1][2]:.1f}), {steps:.0f} steps to the loss")
    noise = statistics.mean(mean for mean, _, _ in estimates)
    batches = sorted({rounded(noise * factor) for factor in (0.25, 1, 4)})
    middle = rounded(noise)
    results, rates = [], {}
    for batch in batches:
        for seed in options.seeds:
            best = math.inf
            for factor in (1, 2, 0.5):
                rate = factor * PEAK * math.sqrt(2 / (1 + noise / batch))
                where = folder / f"batch-{batch}-{seed}-{rate:.4g}"
                steps, _ = trained(where, corpus, options.loss, settings_of(batch, seed, rate, 1024 / batch), best)
                said = "stopped" if math.isinf(steps) else f"{steps:.0f} steps, {steps * batch * SEQUENCE / 1e6:.2f}M tokens"
                say(f"batch {batch}, seed {seed}, learning rate {rate:.4g}: {said}")
                if steps < best:
                    best, rates[batch, seed] = steps, rate
            results.append((batch, seed, best))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    of_seeds = ", ".join(f"{mean:.1f} ({low:.1f} to {high:.1f} within the run)" for mean, low, high in estimates)
    text = (f"`bench/noise_scale/run.py {' '.join(sys.argv[1:])}` at commit {commit}, {time.monotonic() - began:.0f} s: a GPT with 2 layers of width 64 on "
            f"{'the corpus of ./demo' if options.corpus is None else options.corpus.name}, sequences of {SEQUENCE} tokens, {RANKS} ranks, AdamW, to a validation loss of "
            f"{options.loss}; {os.cpu_count()} cores, {platform.system()} {platform.machine()}. Losses do not depend on other work of the machine.\n\n"
            f"Noise scale with a batch of {options.batch}, by seed: {of_seeds}; N = {noise:.1f} samples, {noise * SEQUENCE:.0f} tokens. "
            f"The steps below fit the relation best with N = {fitted(results):.1f}. Best learning rates by batch and seed: "
            f"{'; '.join(f'{batch}: ' + ', '.join(f'{rates[batch, seed]:.2g}' for seed in options.seeds) for batch in batches)}.\n\n{table_of(results, noise, middle)}\n")  # fmt: skip
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
