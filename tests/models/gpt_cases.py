"""A GPT in plain PyTorch, from the papers and not from terrace; it reads terrace's parameters by their names."""

import math

import torch
import torch.nn.functional as F


def norm(x, inputs, name, options):
    weight = inputs[name + ".weight"]
    if options["norm"] == "rmsnorm":
        return F.rms_norm(x, weight.shape, weight, options["norm_epsilon"])
    return F.layer_norm(x, weight.shape, weight, inputs.get(name + ".bias"), options["norm_epsilon"])


def project(x, inputs, name):
    return F.linear(x, inputs[name + ".weight"], inputs.get(name + ".bias"))


def frequencies_of(half, options):
    frequencies = options["theta"] ** (-torch.arange(half, dtype=torch.float64) / half)
    factor, original = options["rope_factor"], options["rope_original_sequence"]
    if options["rope_scaling"] == "linear":
        return frequencies / factor
    if options["rope_scaling"] == "none":
        return frequencies
    low, high = options["rope_low_frequency"], options["rope_high_frequency"]
    scaled = []
    for frequency in frequencies.tolist():
        wavelength = 2 * math.pi / frequency
        if wavelength > original / low:
            frequency = frequency / factor
        elif wavelength >= original / high:
            smooth = (original / wavelength - low) / (high - low)
            frequency = (1 - smooth) * frequency / factor + smooth * frequency
        scaled.append(frequency)
    return torch.tensor(scaled, dtype=torch.float64)


def rotate(x, positions, options):
    half = x.shape[-1] // 2
    frequencies = frequencies_of(half, options)
    angles = positions[:, None, :, None].double() * frequencies
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def attention(x, inputs, name, options, positions, mask):
    batch, length, _ = x.shape
    groups, heads, head_dim = options["kv_heads"], options["heads"], options["head_dim"]
    per_group = heads // groups
#The rows of the joint projection go by groups : the queries of the group, its key, its value.
    joint = project(x, inputs, name + ".qkv").view(batch, length, groups, per_group + 2, head_dim)
    queries = joint[:, :, :, :per_group].reshape(batch, length, heads, head_dim).transpose(1, 2)
    keys = joint[:, :, :, per_group].transpose(1, 2).repeat_interleave(per_group, 1)
    values = joint[:, :, :, per_group + 1].transpose(1, 2).repeat_interleave(per_group, 1)
    if options["qk_norm"]:
        rms = options | {"norm": "rmsnorm"}
        queries, keys = norm(queries, inputs, name + ".query_norm", rms), norm(keys, inputs, name + ".key_norm", rms)
    if options["positions"] == "rotary":
        queries, keys = rotate(queries, positions, options), rotate(keys, positions, options)
    context = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return project(context.transpose(1, 2).reshape(batch, length, heads * head_dim), inputs, name + ".output")


def feed_forward(x, inputs, name, options):
    inner = project(x, inputs, name + ".first")
    if options["activation"] == "swiglu":
        inner = F.silu(inner[..., 0::2]) * inner[..., 1::2]
    else:
        inner = F.gelu(inner, approximate="none" if options["activation"] == "gelu_erf" else "tanh")
    return project(inner, inputs, name + ".second")


def gpt(inputs, options):
    tokens, targets = inputs["tokens"], inputs["targets"]
    batch, length = tokens.shape
    positions = inputs.get("positions", torch.arange(length).expand(batch, length))
    mask = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    if options["window"] > 0:
        mask = mask & (torch.arange(length)[:, None] - torch.arange(length) < options["window"])
    if "documents" in inputs:
        documents = inputs["documents"]
        mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])
    x = F.embedding(tokens, inputs["embedding.tokens.weight"])
    if options["positions"] == "learned":
        x = x + F.embedding(positions, inputs["embedding.positions.weight"])
    for layer in range(options["layers"]):
        block = f"blocks.{layer}"
        normed = norm(x, inputs, block + ".attention_norm", options)
        x = x + attention(normed, inputs, block + ".attention", options, positions, mask)
        x = x + feed_forward(norm(x, inputs, block + ".ffn_norm", options), inputs, block + ".ffn", options)
    x = norm(x, inputs, "head.norm", options)
    output = inputs["embedding.tokens.weight" if options["tied_head"] else "head.output.weight"]
    logits = F.linear(x, output)[..., : options["vocabulary"]]
    if logits.dtype != torch.float64:
        logits = logits.float()
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1, reduction="sum")
    return {
  "loss" : loss, "logits" : logits
}
