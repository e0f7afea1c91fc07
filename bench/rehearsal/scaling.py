#!/usr/bin/env python3
"""Weak and strong scaling of a step, on the clocks of a timed rehearsal and simulated, from 64 to 512 ranks.

usage: bench/rehearsal/scaling.py [BUILD]     (default: build/release)
"""
import json
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else SOURCE / "build/release")
RANKS = (64, 128, 256, 512)
MODEL_RANKS = 64  # tensor 8, pipeline 8
LAYOUT = ["layout.tensor=8", "layout.pipeline=8", "layout.sharding=zero1"]
WEAK, STRONG = 16, 128  # micro-batches of each rank, and of all data-parallel ranks together


def rehearse(ranks, micro_batches):
    command = [BUILD / "terrace", "rehearse", SOURCE / "configs/frontier-22b.toml", "--machine", "frontier", "--devices", ranks,
               "--micro-batches", micro_batches, "--timed", "--steps", 3, "--no-one-rank", "--json"]
    for key in LAYOUT:
        command += ["--set", key]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)["clocked"]


def main():
    print("| scaling | ranks | micro-batches | on the clocks | simulated | ratio | efficiency on the clocks | simulated |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, batches_of in (("weak", lambda ranks: WEAK), ("strong", lambda ranks: STRONG * MODEL_RANKS // ranks)):
        first = None
        for ranks in RANKS:
            batches = batches_of(ranks)
            clocked = rehearse(ranks, batches)
            step, simulated = clocked["step_seconds"][-1], clocked["simulated_step_seconds"]
            work = batches * ranks  # samples of a step, in units of one data-parallel rank's
            first = first or (step / work * ranks, simulated / work * ranks)
            print(f"| {name} | {ranks} | {batches} | {step:.3f} s | {simulated:.3f} s | {step / simulated:.3f} | "
                  f"{first[0] / (step / work * ranks):.3f} | {first[1] / (simulated / work * ranks):.3f} |", flush=True)


if __name__ == "__main__":
    main()
