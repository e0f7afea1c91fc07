"""How well the cost of graphs predicts the time of steps, how long two ranks that share graphs by it wait for each other, and how long
steps wait for their batches.

    cmake --build build/release --target terrace_program bench_gnn_step_costs bench_gnn_waiting bench_gnn_loading
    .deps/python/bin/python bench/gnn/costs.py [--workloads NAME,..] [--molecules FILE.xyz]

Of each network of graph_workloads.py: steps of four molecules on one thread, of which every other one is fitted and the rest
judged (step_costs.cpp), steps of 32 on two ranks (waiting.cpp), and steps of 32 on one thread, which leaves a core for making the next
batches (loading.cpp). For a machine on which nothing else runs.
"""
import argparse
import os
import pathlib
import subprocess
import tempfile

from compare import ROOT, labelled_molecules
from graph_workloads import NAMED


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default=",".join(NAMED))
    parser.add_argument("--molecules", default=ROOT / "data/molecules.xyz", type=pathlib.Path, help="made where it is missing")
    options = parser.parse_args()
    programs = ROOT / "build/release/bench"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, prefix = labelled_molecules(options.molecules, folder)
        for workload in options.workloads.split(","):
            config = folder / f"{workload}.toml"
            config.write_text(NAMED[workload].config(prefix, "fp32", folder / "run"))
            print(f"{workload}:", flush=True)
            for command in ([programs / "bench_gnn_step_costs", config, "train.global_batch=4", "train.threads=1"],
                            [programs / "bench_gnn_waiting", config, "2"],
                            [programs / "bench_gnn_loading", config, "train.threads=1"]):  # fmt: skip
                done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True, check=True)
                print("".join(f"  {line}\n" for line in done.stdout.splitlines()), end="", flush=True)


if __name__ == "__main__":
    main()
