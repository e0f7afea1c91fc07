"""Runs steps of the network in PyTorch; takes the same commands as bench/step/trainer.cpp.

    peer.py SHAPE fp32|bf16 eager|compile|fsdp2 installed|tuned [--device cuda]

SHAPE is what Shape.spec() writes. bf16 is autocast over fp32 weights; with fsdp2, two processes that shard every block by
FSDP2, it is FSDP2's MixedPrecisionPolicy. AdamW is the fused one. "tuned" takes fused attention in the aggregation too, and
on a GPU the fastest of cuDNN's convolutions. The batches lie in the device's memory.
"""
import argparse
import contextlib
import os
import pathlib
import sys

import torch

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(BENCH / "step"), str(BENCH / "layouts"), str(BENCH / "gpu")]
from network import Climax  # noqa: E402
from serve import serve  # noqa: E402
from torch_profile import profile  # noqa: E402
from weather_shapes import CLIP, LEAD_HOURS, LEARNING_RATE, WEIGHT_DECAY, Shape  # noqa: E402

BATCHES = 8  # that take turns, so that no step waits for data


def batches(shape, samples, device):
    size = (BATCHES, samples, shape.variables, shape.latitudes, shape.longitudes)
    inputs, targets = torch.randn(size, device=device), torch.randn(size, device=device)
    leads = torch.full((samples,), float(LEAD_HOURS), device=device)
    while True:
        for number in range(BATCHES):
            yield inputs[number], leads, targets[number]


def autocast(precision, device):
    return torch.autocast(device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def sharded(model, precision, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    options = {"mesh": init_device_mesh("cpu", (ranks,))}
    if precision == "bf16":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def step_of(model, precision, shape, samples, autocasts=True, compiled=False, device="cpu"):
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY, fused=True
    )
    loss_of = torch.compile(model) if compiled else model
    data = batches(shape, samples, device)

    def step():
        batch = next(data)
        optimizer.zero_grad(set_to_none=True)
        with autocast(precision, device) if autocasts else contextlib.nullcontext():
            loss = loss_of(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    return step


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", type=Shape.of)
    parser.add_argument("precision", choices=["fp32", "bf16"])
    parser.add_argument("how", choices=["eager", "compile", "fsdp2"])
    parser.add_argument("setting", choices=["installed", "tuned"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of eager and compile")
    return parser.parse_args()


def main():
    options = read_arguments()
    shape, precision, device = options.shape, options.precision, options.device
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = options.setting == "tuned"
    model = Climax(shape, fused=options.setting == "tuned").to(device)
    if options.how != "fsdp2":
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        step = step_of(model, precision, shape, shape.batch, compiled=options.how == "compile", device=device)
        serve(step, memory=torch.cuda.max_memory_reserved if device == "cuda" else None, profile=profile)
        return
    import torch.distributed as dist
    from two_processes import RANKS, lines, start_other

    other = start_other()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // RANKS))
    dist.init_process_group("gloo")
    model = sharded(model, precision, RANKS)
    serve(step_of(model, precision, shape, shape.batch // RANKS, autocasts=False), lines(other), prints=other is not None)
    sys.stdout.flush()
    if other:
        other.wait()
    os._exit(0)  # Gloo may hang when it is taken down


if __name__ == "__main__":
    main()
