"""A GPT step in PyTorch on two processes, by DDP or FSDP2 over Gloo, that obeys the same lines as bench/step/trainer.cpp.

    peer.py WORKLOAD fp32|bf16 ddp|fsdp2 CORPUS.bin

bf16 is autocast with DDP and a MixedPrecisionPolicy with FSDP2, as PyTorch's users train. The first process starts the
second, reads the lines and passes them on.
"""
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "step"))
from peer import Gpt, batches  # noqa: E402
from workloads import CLIP, LEARNING_RATE, WEIGHT_DECAY, WORKLOADS  # noqa: E402

RANKS = 2


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def start_other():
    """The second process; None in the second."""
    if "RANK" in os.environ:
        return None
    os.environ.update(RANK="0", WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port())
    environment = {**os.environ, "RANK": "1"}
    return subprocess.Popen([sys.executable, *sys.argv], env=environment, stdin=subprocess.PIPE, stdout=sys.stderr, text=True)


def parallel(model, how, precision):
    if how == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    options = {"mesh": init_device_mesh("cpu", (RANKS,))}
    if precision == "bf16":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def main():
    workload, precision, how, corpus = sys.argv[1:]
    other = start_other()
    shape = WORKLOADS[workload]
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // RANKS))
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model = parallel(Gpt(shape), how, precision)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY, fused=True
    )
    data = batches(shape, corpus)
    share = shape.batch // RANKS
    mine = slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)
    autocast = precision == "bf16" and how == "ddp"

    def step():
        tokens, targets = (part[mine] for part in next(data))
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
            loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    loss = step()
    if other:
        print(f"@ ready {time.time()} loss {loss:.5f}", flush=True)
    for line in sys.stdin:
        if other:
            other.stdin.write(line)
            other.stdin.flush()
        words = line.split()
        if words == ["quit"]:
            break
        milliseconds = []
        for _ in range(int(words[1])):
            began = time.perf_counter()
            loss = step()
            milliseconds.append(1e3 * (time.perf_counter() - began))
        if other:
            print("@ ms", *(f"{t:.3f}" for t in milliseconds), "loss", f"{loss:.5f}", flush=True)
    dist.destroy_process_group()


main()
