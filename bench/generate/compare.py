"""Tokens a second of greedy generation beside transformers, from the same random weights in GPT-2's small shape.

    .deps/python/bin/python bench/generate/compare.py [--terrace build/release/terrace] [--precisions fp32,bf16]
                                                      [--samples 1,8] [--rounds 7] [--prompt 32] [--tokens 64] [--threads 2]

A round is one call of terrace generate (its own rate, which includes the prompts but not the start) and one of transformers'
generate() in a process that has generated before. transformers runs the prompts as one batch, terrace from a file with one a line.
The last column counts the continuations that are equal token by token.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "step"))
TYPES = {"fp32": "float32", "bf16": "bfloat16"}


def write_tokenizer(path):
    """As many tokens as GPT-2 has: the bytes, pairs of bytes and an end token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(first, second) for first in letters for second in letters][:50000]
    words = letters + [first + second for first, second in pairs]
    tokenizer = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    tokenizer.save(str(path))
    return tokenizer


def write_model(folder):
    import torch
    import transformers

    torch.manual_seed(1)
    transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)
    return write_tokenizer(folder / "tokenizer.json")


def some_prompts(tokenizer, count, length):
    drawn = random.Random(1)
    prompts = []
    for _ in range(count):
        text = ""
        while len(tokenizer.encode(text).ids) < length:
            text += drawn.choice("abcdefghijklmnopqrstuvwxyz ")
        prompts.append(text)
    return prompts


def serve(folder, precision, tokens, threads):
    """Reads prompts as lists of ids, one batch a line, and answers with seconds and continuations."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    transformers.utils.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, TYPES[precision])).eval()
    for line in sys.stdin:
        ids = torch.tensor(json.loads(line))
        began = time.perf_counter()
        with torch.inference_mode():
            found = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens,
                                   min_new_tokens=tokens, pad_token_id=0)
        print(json.dumps({"seconds": time.perf_counter() - began, "tokens": found[:, ids.shape[1]:].tolist()}), flush=True)


class Theirs:
    def __init__(self, folder, precision, options):
        command = [sys.executable, __file__, "--serve", folder, "--precisions", precision, "--tokens", str(options.tokens),
                   "--threads", str(options.threads)]  # fmt: skip
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, prompts):
        self.process.stdin.write(json.dumps(prompts) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        return sum(map(len, said["tokens"])) / said["seconds"], said["tokens"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def ours(options, checkpoint, precision, prompts):
    command = [options.terrace, "generate", checkpoint, "--prompts", "-", "--json", "--temperature", "0", "--precision", precision,
               "--batch", str(len(prompts)), "--max-tokens", str(options.tokens), "--threads", str(options.threads)]  # fmt: skip
    said = subprocess.run(command, input="\n".join(prompts), capture_output=True, text=True, check=True)
    rate = float(re.search(r"([0-9.]+) tokens/s", said.stderr).group(1))
    return rate, [json.loads(line)["tokens"] for line in said.stdout.splitlines()]


def measure(options, folder, checkpoint, tokenizer):
    from comparison import spread, table

    rows = []
    for precision in options.precisions:
        theirs = Theirs(folder, precision, options)
        for samples in options.samples:
            prompts = some_prompts(tokenizer, samples, options.prompt)
            ids = [tokenizer.encode(prompt).ids for prompt in prompts]
            theirs(ids)
            rates = []
            for number in range(options.rounds):
                (own, tokens), (other, expected) = ours(options, checkpoint, precision, prompts), theirs(ids)
                rates.append((own, other))
                print(f"{precision}, {samples} samples, round {number + 1}: {own:.1f} and {other:.1f} tokens/s", file=sys.stderr)
            equal = sum(mine == other for mine, other in zip(tokens, expected))
            ratios = [own / other for own, other in rates]
            own, other = (f"{statistics.median(rate[side] for rate in rates):.1f}" for side in (0, 1))
            rows.append([precision, str(samples), own, other, spread(min(ratios), statistics.median(ratios), max(ratios)),
                         f"{equal} of {samples}"])  # fmt: skip
        theirs.stop()
    return table(["type", "samples", "terrace, tokens/s", "transformers", "ratio (least to most)", "equal texts"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terrace", default=str(HERE.parents[1] / "build/release/terrace"))
    parser.add_argument("--precisions", default=list(TYPES), type=lambda text: text.split(","))
    parser.add_argument("--samples", default=[1, 8], type=lambda text: [int(number) for number in text.split(",")])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a continuation")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.precisions[0], options.tokens, options.threads)
    from comparison import machine

    with tempfile.TemporaryDirectory() as scratch:
        folder, checkpoint = pathlib.Path(scratch) / "hf", pathlib.Path(scratch) / "imported"
        tokenizer = write_model(folder)
        subprocess.run([options.terrace, "import", folder, "--output", checkpoint], check=True)
        print(f"{machine()}; load average {os.getloadavg()[0]:.1f}\n\n{measure(options, str(folder), checkpoint, tokenizer)}")


if __name__ == "__main__":
    main()
