"""Runs GPT steps of PyTorch or DeepSpeed on two processes; takes the same commands as bench/layouts/trainer.cpp.

    peer.py WORKLOAD fp32|bf16 ddp|fsdp2|zero1|zero3|tensor|pipeline CORPUS.bin

The first process starts the second, reads the lines and passes them on.
"""
import importlib
import os
import pathlib
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "step"))
from serve import serve  # noqa: E402
from two_processes import RANKS, lines, start_other  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

# Each has prepare(shape, precision, how, corpus), which gives what runs a step and, where that is no loss of this
# process, what makes one of it.
MODULES = {
    "ddp": "data_parallel_peer",
    "fsdp2": "data_parallel_peer",
    "zero1": "deepspeed_peer",
    "zero3": "deepspeed_peer",
    "tensor": "tensor_peer",
    "pipeline": "pipeline_peer",
}


def main():
    workload, precision, how, corpus = sys.argv[1:]
    other = start_other()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // RANKS))
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    step, loss_of = importlib.import_module(MODULES[how]).prepare(WORKLOADS[workload], precision, how, corpus)
    serve(step, lines(other), prints=other is not None, loss_of=loss_of)
    sys.stdout.flush()
    if other:
        other.wait()
    os._exit(0)  # some of them hang when they are taken down


main()
