"""ClimaX's network (arXiv 2301.10343) as its users have it: patch embeddings, blocks and stochastic depth are timm's.

timm is no part of the set-up:

    .deps/python/bin/python -m pip install --no-deps --target .deps/timm -r bench/vit/requirements.txt
"""
import math
import pathlib
import sys

import torch
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".deps/timm"
sys.path.append(str(FOLDER))
from timm.layers import PatchEmbed  # noqa: E402
from timm.models.vision_transformer import Block  # noqa: E402


def latitude_weights(latitudes):
    """Cosines over their mean, of latitudes that divide the meridian evenly; [H, 1]."""
    angles = ((torch.arange(latitudes, dtype=torch.float64) + 0.5) / latitudes - 0.5) * math.pi
    return (angles.cos() / angles.cos().mean()).float()[:, None]


class Climax(nn.Module):
    """With `fused`, the aggregation asks nn.MultiheadAttention for no weights, so that it takes the fused attention."""

    def __init__(self, shape, fused):
        super().__init__()
        self.shape, self.fused = shape, fused
        width, patch, variables = shape.width, shape.patch, shape.variables
        self.embeddings = nn.ModuleList(
            PatchEmbed((shape.latitudes, shape.longitudes), patch, in_chans=1, embed_dim=width) for _ in range(variables)
        )
        self.variables = nn.Parameter(torch.zeros(1, variables, width))
        self.query = nn.Parameter(torch.zeros(1, 1, width))
        self.aggregation = nn.MultiheadAttention(width, shape.heads, batch_first=True)
        self.positions = nn.Parameter(torch.zeros(1, shape.places, width))
        self.lead = nn.Linear(1, width)
        self.dropout = nn.Dropout(shape.dropout)
        depths = torch.linspace(0, shape.dropout, shape.layers).tolist()
        self.blocks = nn.ModuleList(
            Block(width, shape.heads, qkv_bias=True, proj_drop=shape.dropout, drop_path=depth) for depth in depths
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, variables * patch**2)
        )
        self.register_buffer("weights", latitude_weights(shape.latitudes))
        self.apply(self.initialize)
        for table in (self.variables, self.positions):
            nn.init.normal_(table, std=0.02)

    @staticmethod
    def initialize(module):
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def aggregate(self, x):
        """[B, V, L, D] -> [B, L, D]: at each place one query attends to the tokens of all variables."""
        batch, _, places, width = x.shape
        tokens = x.transpose(1, 2).flatten(0, 1)  # [B L, V, D]
        query = self.query.expand(len(tokens), -1, -1)
        context, _ = self.aggregation(query, tokens, tokens, need_weights=not self.fused)
        return context.view(batch, places, width)

    def forward(self, inputs, leads, targets):
        shape = self.shape
        tokens = torch.stack([embed(inputs[:, i : i + 1]) for i, embed in enumerate(self.embeddings)], dim=1)
        x = self.aggregate(tokens + self.variables.unsqueeze(2)) + self.positions
        x = self.dropout(x + self.lead(leads[:, None] / 100).unsqueeze(1))
        for block in self.blocks:
            x = block(x)
        x = self.head(self.norm(x))
        rows, columns, patch = shape.latitudes // shape.patch, shape.longitudes // shape.patch, shape.patch
        field = torch.einsum("nhwpqc->nchpwq", x.view(-1, rows, columns, patch, patch, shape.variables))
        error = field.reshape(targets.shape).float() - targets
        return (error.square() * self.weights).mean()
