"""Held-out losses of a model with experts beside the dense model with the same active work.

    cmake --build build/release --target terrace_program
    .deps/python/bin/python bench/convergence/experts.py [--seeds 1,2,3] [--steps 400] [--ranks 1] [--experts 8] [--per-token 2]
                                                         [--corpus PREFIX] [--folder FOLDER] [--output FILE.md] [section.key=value...]

Every run trains the model of ./demo (configs/demo.toml) on its corpus, which is made on first use. In the model with experts each feed-forward layer has --experts of them, of which
a token uses --per-token, each so much narrower that these have the width of the dense layer. Both have the same steps, batches and seeds. The table has the loss of all held-out text after the
last step, their ratio, and the load of the busiest expert of all layers as a multiple of even load, as a mean over the last fifth of the steps.

Settings at the end are given to every run. Runs lie in FOLDER (build/experts); a finished one is not repeated, and one that was interrupted continues.
"""
import argparse
import json
import pathlib
import sys
import tomllib

from finished_runs import ROOT, digest, mean, place, say, validation_loss

sys.path.insert(1, str(ROOT / "bench"))
from demo_corpus import demo_corpus  # noqa: E402

PLAIN = ["layout.pipeline=1", "layout.tensor=1", "layout.sequence_parallel=false", "layout.schedule=1f1b", "layout.sharding=ddp", "train.threads=1", "train.precision=fp32"]
MOST_LOAD = 1.5


def train(sparse, seed, corpus, options):
    width = tomllib.loads((ROOT / "configs/demo.toml").read_text())["model"]["ffn_width"]
    experts = [f"model.experts={options.experts}", f"model.experts_per_token={options.per_token}", f"model.expert_width={width // options.per_token}",
               "model.balance_loss=0.01", "model.router_z_loss=0.001"]  # fmt: skip
    settings = [*PLAIN, f'data.train=["{corpus}"]', f"data.tokenizer={corpus.parent}/tokenizer.model", f"train.seed={seed}", f"train.steps={options.steps}",
                f"train.evaluate_every={options.steps}", "train.evaluate_batches=0", "checkpoint.every=0", "checkpoint.keep=0", *(experts if sparse else []), *options.settings]  # fmt: skip
    folder = options.folder.resolve() / f"{'experts' if sparse else 'dense'}-{seed}-{digest(*settings)}"
    loss, seconds = validation_loss(folder, ROOT / "configs/demo.toml", options.ranks, [*settings, f"checkpoint.folder={folder / 'run'}"])
    say(f"seed {seed}, {'experts' if sparse else 'dense'}: {loss:.4f} ({'was there' if seconds is None else f'{seconds:.0f} s'})")
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    loads = [line["expert_load"] for line in lines if line.get("expert_load") is not None and line["step"] > options.steps * 4 // 5]
    return loss, mean(loads) if loads else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--per-token", type=int, default=2)
    parser.add_argument("--corpus", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/experts")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("settings", nargs="*")
    options = parser.parse_args()
    corpus = options.corpus.resolve() if options.corpus else demo_corpus()
    lines = ["| seed | dense | experts | experts / dense | largest load |", "| --- | --- | --- | --- | --- |"]
    ratios = []
    for seed in options.seeds:
        dense, _ = train(False, seed, corpus, options)
        sparse, load = train(True, seed, corpus, options)
        ratios.append(sparse / dense)
        lines.append(f"| {seed} | {dense:.4f} | {sparse:.4f} | {sparse / dense:.4f} | {load:.2f} |")
    commit, machine = place()
    text = "\n".join(lines) + f"\n\nCommit {commit}, {machine}: {options.experts} experts, {options.per_token} a token, {options.steps} steps; mean ratio {mean(ratios):.4f}.\n"
    print(text)
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
