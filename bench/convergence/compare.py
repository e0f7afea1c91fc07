"""Final validation losses of runs with plain and with quantized movements, beside the spread of seeds.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/convergence/compare.py [--seeds 1,2,3] [--precisions fp32,bf16] [--corpus PREFIX] [--folder FOLDER]
                                                         [--row 'NAME=section.key=value ...'] [--output FILE.md] [section.key=value...]

Every run trains the same small GPT on the corpus of ./demo, whose tokens it makes on first use, on two ranks with `zero3` and
micro-batches that are reduced one by one; a seed decides the initial weights, the order of the data and the rounding, and is the
same in all rows. The table has the validation loss after the last step (all held-out text) of each seed, the mean, its
ratio to that of plain movements with the same seeds, and the bar that the row has to meet: a ratio, or the spread of the plain
losses (largest minus smallest). Exits with 1 if a row meets neither.

Runs lie in FOLDER (build/convergence), one for each row, precision, seed and settings: a run that is finished is not repeated, and one
that was interrupted continues. Settings at the end are given to every run, such as train.steps=20 to try the script.
"""
import argparse
import pathlib
import sys

from finished_runs import ROOT, digest, mean, place, say, validation_loss

sys.path.insert(1, str(ROOT / "bench"))
from demo_corpus import demo_corpus  # noqa: E402

CONFIG = """# A run of bench/convergence/compare.py; everything else is on its command line.
[model]
family = "gpt"
layers = 4
width = 128
heads = 2
ffn_width = 512
sequence = 128
vocabulary = 4096
positions = "rotary"

[data]
train = ["{corpus}"]
validation_share = 0.02

[train]
global_batch = 16
micro_batch = 2
steps = 1200
threads = 1

[optimizer]
learning_rate = 3e-3
schedule = "cosine"
warmup_steps = 50
min_learning_rate = 3e-4
weight_decay = 0.1
clip = 1.0

[layout]
sharding = "zero3"

[checkpoint]
folder = "{folder}"
every = 200
keep = 1
"""
PLAIN = "plain"
ROWS = {
    PLAIN: "",
    "int8 gathers": "layout.gather_type=int8",
    "int4 gradients, error feedback": "layout.reduce_type=int4 layout.error_feedback=true",
    "int4 gradients": "layout.reduce_type=int4",
}
# The most that a row may be above the plain loss; a row without a bar is there for comparison.
BARS = {"int8 gathers": 0.005, "int4 gradients, error feedback": 0.01}
RANKS = 2


def final_loss(folder, corpus, settings):
    """The validation loss of a run with these settings; seconds is what it takes here, or None if it was there."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.toml"
    config.write_text(CONFIG.format(corpus=corpus, folder=folder / "run"))
    # With 0 batches all held-out text is evaluated, which a run does after its last step alone.
    steps = next((setting.partition("=")[2] for setting in reversed(settings) if setting.startswith("train.steps=")), "1200")
    return validation_loss(folder, config, RANKS, [f"train.evaluate_every={steps}", "train.evaluate_batches=0", *settings])


def table_of(losses, seeds, precisions, rows):
    headings = ["precision", "movements", *(f"seed {seed}" for seed in seeds), "mean", "/ plain", "by seed", "bar", "met"]
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    failed = False
    for precision in precisions:
        plain = [losses[precision, PLAIN, seed] for seed in seeds]
        spread = (max(plain) - min(plain)) / mean(plain)
        for name in rows:
            own = [losses[precision, name, seed] for seed in seeds]
            ratio = mean(own) / mean(plain)
            by_seed = [a / b for a, b in zip(own, plain)]
            bar, met = f"spread of seeds {spread:.2%}" if name == PLAIN else "", ""
            if name in BARS:
                allowed = max(BARS[name], spread)
                met = "yes" if ratio <= 1 + allowed else "no"
                bar = f"{BARS[name]:.1%}, or {spread:.2%}"
                failed |= met == "no"
            cells = [precision, name, *(f"{loss:.4f}" for loss in own), f"{mean(own):.4f}", f"{ratio:.4f}",
                     f"{min(by_seed):.4f} to {max(by_seed):.4f}", bar, met]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=["fp32", "bf16"])
    parser.add_argument("--corpus", type=pathlib.Path, help="prefix of a prepared corpus; without it, that of ./demo")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/convergence")
    parser.add_argument("--row", action="append", default=[], help="a further row: NAME=section.key=value ...")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("settings", nargs="*")
    options = parser.parse_args()
    rows = dict(ROWS)
    for row in options.row:
        name, _, settings = row.partition("=")
        rows[name] = settings
    corpus = (options.corpus or demo_corpus()).resolve()
    losses, total = {}, len(rows) * len(options.seeds) * len(options.precisions)
    for precision in options.precisions:
        for seed in options.seeds:
            for name, settings in rows.items():
                all_settings = [f"train.precision={precision}", f"train.seed={seed}", *settings.split(), *options.settings]
                folder = options.folder.resolve() / f"{name.replace(' ', '_').replace(',', '')}-{precision}-{seed}-{digest(corpus, *all_settings)}"
                loss, seconds = final_loss(folder, corpus, all_settings)
                losses[precision, name, seed] = loss
                took = "was there" if seconds is None else f"{seconds:.0f} s"
                say(f"{len(losses)} of {total}: {name}, {precision}, seed {seed}: {loss:.4f} ({took})")
    table, failed = table_of(losses, options.seeds, options.precisions, rows)
    commit, machine = place()
    text = (f"`bench/convergence/compare.py {' '.join(sys.argv[1:])}` at commit {commit}: validation losses of a GPT with 4 layers of "
            f"width 128 on {'the corpus of ./demo' if options.corpus is None else options.corpus.name}, {RANKS} ranks, zero3; "
            f"{machine}.\n\n{table}\n")  # fmt: skip
    print(text)
    if options.output:
        options.output.write_text(text)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
