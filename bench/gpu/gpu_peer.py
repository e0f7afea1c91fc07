"""Runs bf16 steps of a GPT of PyTorch, eager or compiled; takes the same commands as bench/step/trainer.cpp.

    gpu_peer.py WORKLOAD eager|compile CORPUS.bin cuda|cpu

bf16 is autocast over fp32 weights, as PyTorch's users train; the rest is set as a careful user does: TF32 for products in
fp32, the fused AdamW, and batches that each step copies to the GPU through pinned memory.
"""
import sys

import gpu_workloads  # noqa: F401  (also makes bench/step importable)
import torch

from peer import Gpt, adamw, batches
from serve import serve
from torch_profile import profile
from workloads import CLIP, WORKLOADS


def main():
    workload, how, corpus, device = sys.argv[1:]
    shape = WORKLOADS[workload]
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    with torch.device(device):
        model = Gpt(shape)
    optimizer = adamw(model.parameters())
    loss_of = torch.compile(model) if how == "compile" else model
    data = batches(shape, corpus)
    micro_batch = shape.micro_batch or shape.batch

    def on_device(tensor):
        return tensor.pin_memory().to(device, non_blocking=True) if device == "cuda" else tensor

    def step():
        tokens, targets = (on_device(tensor) for tensor in next(data))
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for begin in range(0, shape.batch, micro_batch):
            rows = slice(begin, begin + micro_batch)
            with torch.autocast(device, torch.bfloat16):
                loss = loss_of(tokens[rows], targets[rows]) * (micro_batch / shape.batch)
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return total.item()

    serve(step, memory=torch.cuda.max_memory_reserved if device == "cuda" else None, profile=profile)


if __name__ == "__main__":
    main()
