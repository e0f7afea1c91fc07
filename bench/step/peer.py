"""Runs GPT steps of PyTorch, eager or compiled; takes the same commands as bench/step/trainer.cpp.

    peer.py WORKLOAD fp32|bf16 eager|compile CORPUS.bin

WORKLOAD is a name or what Workload.spec() writes.

bf16 is autocast over fp32 weights, as PyTorch's users train; AdamW is the fused one.
"""
import contextlib
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from serve import serve
from workloads import CLIP, LEARNING_RATE, WEIGHT_DECAY, Workload, token_type


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.attention_norm, self.ffn_norm = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.joint, self.output = nn.Linear(shape.width, 3 * shape.width), nn.Linear(shape.width, shape.width)
        self.gated = shape.activation == "swiglu"
        self.first = nn.Linear(shape.width, shape.inner * (2 if self.gated else 1))
        self.second = nn.Linear(shape.inner, shape.width)

    def attend(self, x):
        batch, length, _ = x.shape
        parts = self.joint(x).chunk(3, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(context.transpose(1, 2).reshape(batch, length, -1))

    def activate(self, inner):
        if not self.gated:
            return F.gelu(inner, approximate="tanh")
        gate, up = inner.chunk(2, dim=-1)
        return F.silu(gate) * up

    def forward(self, x):
        x = x + self.attend(self.attention_norm(x))
        return x + self.second(self.activate(self.first(self.ffn_norm(x))))


class Gpt(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.sequence, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                last = name.endswith(("output.weight", "second.weight"))
                nn.init.normal_(parameter, std=0.02 / ((2 * shape.layers) ** 0.5 if last else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def batches(shape, corpus, part=0, parts=1):
    """Endless batches of the corpus, in its order; of each, one of so many parts."""
    tokens = torch.from_numpy(np.fromfile(corpus, dtype=token_type(shape.vocabulary)).astype(np.int64))
    size = shape.batch * shape.sequence
    own = slice(part * shape.batch // parts, (part + 1) * shape.batch // parts)
    while True:
        for begin in range(0, len(tokens) - size, size):
            batch = tokens[begin : begin + size + 1]
            yield batch[:-1].view(shape.batch, -1)[own], batch[1:].view(shape.batch, -1)[own]


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY, fused=True)


def autocast(precision):
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def main():
    workload, precision, how, corpus = sys.argv[1:]
    shape = Workload.of(workload)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(1)
    model = Gpt(shape)
    optimizer = adamw(model.parameters())
    loss_of = torch.compile(model) if how == "compile" else model
    data = batches(shape, corpus)

    def step():
        tokens, targets = next(data)
        optimizer.zero_grad(set_to_none=True)
        with autocast(precision):
            loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    serve(step)


if __name__ == "__main__":
    main()
