#!/usr/bin/env python3
"""Attention of sequences that are cut over two ranks with a core each: its share of even work, and the best of three peers written over PyTorch.

    cmake --build build/release --target bench_parallel_context_attention
    .deps/python/bin/python bench/parallel/context_compare.py [--shapes 4] [--seed 1] [--rounds 3]

Even work is the time of ranks that each compute the whole sequence by themselves at the same time, divided by their number. Programs take turns, --rounds times; figures are
medians of the ratios within a round. Beside the usual shape, shapes are drawn by the seed.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = ROOT / "build/release/bench/bench_parallel_context_attention"
PEERS = pathlib.Path(__file__).with_name("context_peers.py")
ROUTES = ("ring", "gather", "heads")
RANKS = 2


def seconds(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return min(json.loads(done.stdout)["seconds"])


def drawn(number, seed):
    choices = random.Random(seed)
    for _ in range(number):
        key_heads = choices.choice((2, 4, 8))
        yield (choices.choice((2048, 3072, 4096)), choices.choice(("fp32", "bf16")), key_heads * choices.choice((1, 2, 4)), key_heads, choices.choice((64, 80, 128)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| tokens a rank | type | heads | of keys | width | route | share of even work | best peer | best peer / ours |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for tokens, kind, heads, key_heads, width in [(4096, "fp32", 16, 16, 64), *drawn(options.shapes, options.seed)]:
        shares, ratios = {route: [] for route in ROUTES}, []
        for _ in range(options.rounds):
            shape = (RANKS, tokens, 2, kind, heads, key_heads, width)
            whole = seconds([OURS, "whole", *shape])
            ours = {route: seconds([OURS, route, *shape]) for route in ROUTES}
            peers = {route: seconds([sys.executable, PEERS, route, *shape]) for route in ROUTES}
            for route in ROUTES:
                shares[route].append(whole / RANKS / ours[route])
            best = min(peers, key=peers.get)
            ratios.append((peers[best] / min(ours.values()), best))
        middle, peer = sorted(ratios)[len(ratios) // 2]
        for route in ROUTES:
            last = f"{peer} | {middle:.2f}" if route == "ring" else " | "
            print(f"| {tokens} | {kind} | {heads} | {key_heads} | {width} | {route} | {statistics.median(shares[route]):.3f} | {last} |", flush=True)


if __name__ == "__main__":
    main()
