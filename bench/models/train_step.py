"""The step of train_step.cpp in eager PyTorch: forward, loss and backward, tokens per second of the fastest step."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

WORDS = set(sys.argv[1:])
DEEP = "deep" in WORDS
LAYERS, WIDTH, HEADS, BATCH = (12, 256, 8, 16) if DEEP else (4, 768, 12, 8)
LENGTH, VOCABULARY = 256, 8192
DROPOUT = 0.1 if "dropout" in WORDS else 0.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.joint, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first, self.second = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        split = self.joint(self.attention_norm(x)).split(WIDTH, dim=2)
        q, k, v = (part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in split)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.output(context.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)))
        return x + self.dropout(self.second(F.gelu(self.first(self.ffn_norm(x)), approximate="tanh")))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.dropout(self.tokens(tokens) + self.positions(torch.arange(LENGTH)))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


model = Gpt().to(torch.bfloat16 if "bf16" in WORDS else torch.float32)
tokens, targets = torch.randint(VOCABULARY, (BATCH, LENGTH)), torch.randint(VOCABULARY, (BATCH, LENGTH))
best_wall = best_cpu = float("inf")
for _ in range(10):
    wall, cpu = time.perf_counter(), time.process_time()
    model.zero_grad()
    model(tokens, targets).backward()
    best_wall = min(best_wall, time.perf_counter() - wall)
    best_cpu = min(best_cpu, time.process_time() - cpu)
print(f"PyTorch: {BATCH * LENGTH / best_wall:.0f} tokens/s, {1e3 * best_cpu:.1f} ms of CPU time a step")
