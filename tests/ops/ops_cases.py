"""Computes the operations of terrace/ops in plain PyTorch."""

import torch
import torch.nn.functional as F


def linear(inputs, options):
    return {"y": F.linear(inputs["x"], inputs["weight"], inputs.get("bias"))}


def layer_norm(inputs, options):
    weight = inputs["weight"]
    return {"y": F.layer_norm(inputs["x"], weight.shape, weight, inputs.get("bias"), options["epsilon"])}


def rms_norm(inputs, options):
    weight = inputs["weight"]
    return {"y": F.rms_norm(inputs["x"], weight.shape, weight + options["weight_offset"], options["epsilon"])}


def gelu(inputs, options):
    return {"y": F.gelu(inputs["x"], approximate=options["form"])}


def swiglu(inputs, options):
    x = inputs["x"]
    return {"y": F.silu(x[..., 0::2]) * x[..., 1::2]}


def geglu(inputs, options):
    x = inputs["x"]
    return {"y": F.gelu(x[..., 0::2], approximate="tanh") * x[..., 1::2]}


def embedding(inputs, options):
    return {"y": F.embedding(inputs["indices"], inputs["weight"])}


def vocabulary_loss(inputs, options):
    hidden, targets = inputs["hidden"], inputs["targets"]
    logits = F.linear(hidden, inputs["weight"][: options["vocabulary"]])
    if logits.dtype != torch.float64:
        logits = logits.float()
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1, reduction="sum")
    return {"loss": loss}


def rotate(x, positions, theta):
    """x [B, H, T, hd], positions [B, T]: pairs (i, i + hd/2) as complex numbers in the angle's precision."""
    half = x.shape[-1] // 2
    frequencies = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions[:, None, :, None].double() * frequencies
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def attention(inputs, options):
    joint = inputs["joint"]
    batch, length, _ = joint.shape
    groups, per_group, head_dim = options["groups"], options["queries_per_group"], options["head_dim"]
    grouped = joint.reshape(batch, length, groups, per_group + 2, head_dim)
    queries = grouped[:, :, :, :per_group].reshape(batch, length, groups * per_group, head_dim).transpose(1, 2)
    keys = grouped[:, :, :, per_group].transpose(1, 2)
    values = grouped[:, :, :, per_group + 1].transpose(1, 2)
    if "theta" in options:
        positions = inputs.get("positions", torch.arange(length).expand(batch, length))
        queries, keys = rotate(queries, positions, options["theta"]), rotate(keys, positions, options["theta"])
    mask = torch.ones(length, length, dtype=torch.bool)[None, None]
    if options["causal"]:
        mask = mask.tril()
    if options.get("window", 0) > 0:
        mask = mask & (torch.arange(length)[:, None] - torch.arange(length) < options["window"])
    if "documents" in inputs:
        documents = inputs["documents"]
        mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])
    keys, values = keys.repeat_interleave(per_group, 1), values.repeat_interleave(per_group, 1)
    context = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return {"y": context.transpose(1, 2).reshape(batch, length, -1)}
