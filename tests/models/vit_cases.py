"""The network of ClimaX in plain PyTorch, from the paper and not from terrace; it reads terrace's parameters by their names."""

import torch
import torch.nn.functional as F


def project(x, inputs, name):
    return F.linear(x, inputs[name + ".weight"], inputs[name + ".bias"])


def norm(x, inputs, name, options):
    weight = inputs[name + ".weight"]
    return F.layer_norm(x, weight.shape, weight, inputs[name + ".bias"], options["norm_epsilon"])


def attend(queries, keys, values, inputs, name, options):
    """Heads [.., tokens, head_dim]; with qk_norm both are normalised first."""
    if options["qk_norm"]:
        queries = norm(queries, inputs, name + ".query_norm", options)
        keys = norm(keys, inputs, name + ".key_norm", options)
    return F.scaled_dot_product_attention(queries, keys, values)


def aggregate(fields, inputs, options):
    """One patch embedding a channel, and one query that attends to the channels: fields [B, C, H, W] to [B, L, D]."""
    name = "embedding.aggregation"
    patch, heads = options["patch"], options["heads"]
    weight, bias = inputs["embedding.tokens.weight"], inputs["embedding.tokens.bias"]
    tokens = []
    for channel in range(fields.shape[1]):
        kernel = weight[channel].view(-1, 1, patch, patch)
        image = F.conv2d(fields[:, channel : channel + 1], kernel, bias[channel], stride=patch)
        tokens.append(image.flatten(2).transpose(1, 2) + inputs["embedding.tokens.variables"][channel])
    x = torch.stack(tokens, dim=2)  # [B, L, C, D]
    batch, places, channels, width = x.shape
    # The rows go by heads: the query of the head, its keys, its values.
    weights = inputs[name + ".qkv.weight"].view(heads, 3, width // heads, width)
    biases = inputs[name + ".qkv.bias"].view(heads, 3, width // heads)
    query_weight, key_weight, value_weight = (weights[:, part].reshape(width, width) for part in range(3))
    query_bias, key_bias, value_bias = (biases[:, part].reshape(width) for part in range(3))
    query = F.linear(inputs[name + ".query"], query_weight, query_bias)

    def heads_of(y):
        return y.reshape(batch, places, -1, heads, width // heads).transpose(2, 3)

    queries = heads_of(query.expand(batch, places, 1, width))
    keys, values = heads_of(F.linear(x, key_weight, key_bias)), heads_of(F.linear(x, value_weight, value_bias))
    context = attend(queries, keys, values, inputs, name, options)  # [B, L, heads, 1, head_dim]
    return project(context.reshape(batch, places, width), inputs, name + ".output")


def attention(x, inputs, name, options):
    batch, length, width = x.shape
    heads = options["heads"]
    # The rows of the joint projection go by heads: the queries of the head, its key, its value.
    joint = project(x, inputs, name + ".qkv").view(batch, length, heads, 3, width // heads)
    queries, keys, values = (joint[:, :, :, part].transpose(1, 2) for part in range(3))
    context = attend(queries, keys, values, inputs, name, options)
    return project(context.transpose(1, 2).reshape(batch, length, width), inputs, name + ".output")


def hidden_states(inputs, options):
    fields = inputs["inputs"]
    missing = -fields.shape[2] % options["patch"]
    fields = F.pad(fields, (0, 0, 0, missing), mode="replicate") if missing else fields
    x = aggregate(fields, inputs, options) + inputs["embedding.positions"]
    if options["lead_embedding"]:
        x = x + project(inputs["leads"][:, None] / 100, inputs, "embedding.lead")[:, None]
    if options["time_inputs"]:
        angles = 2 * torch.pi * inputs["times"]
        x = x + project(torch.cat([angles.sin(), angles.cos()], 1), inputs, "embedding.time")[:, None]
    for layer in range(options["layers"]):
        block = f"blocks.{layer}"
        x = x + attention(norm(x, inputs, block + ".attention_norm", options), inputs, block + ".attention", options)
        inner = F.gelu(project(norm(x, inputs, block + ".ffn_norm", options), inputs, block + ".ffn.first"))
        x = x + project(inner, inputs, block + ".ffn.second")
    return x


def vit(inputs, options):
    x = norm(hidden_states(inputs, options), inputs, "head.norm", options)
    for layer in range(options["head_layers"]):
        x = F.gelu(project(x, inputs, f"head.hidden.{layer}"))
    patches = project(x, inputs, "head.output")
    targets = inputs["targets"]
    batch, outputs, latitudes, longitudes = targets.shape
    patch = options["patch"]
    rows, columns = -(-latitudes // patch), longitudes // patch
    field = torch.einsum("nhwpqc->nchpwq", patches.view(batch, rows, columns, patch, patch, outputs))
    field = field.reshape(batch, outputs, rows * patch, longitudes)[:, :, :latitudes]
    if field.dtype != torch.float64:
        field, targets = field.float(), targets.float()
    if options["predicts"] == "change":
        field = field + inputs["before"]
    if options["predicts"] in ("anomaly", "damped_anomaly"):
        field = field + inputs["climatology"]
    if options["predicts"] == "damped_anomaly":
        damping = inputs["head.damping"].to(field.dtype)
        field = field + damping * (inputs["before"] - inputs["climatology_before"]).to(field.dtype)
    error = field - targets
    weights = inputs["weights"].to(error.dtype)[:, None].expand_as(error) / (latitudes * longitudes)
    if "mask" in inputs:
        weights = weights * inputs["mask"]
        weights = weights / weights.sum((2, 3), keepdim=True)
    of_output = torch.tensor(options["output_weights"], dtype=error.dtype)
    squares = (weights * error**2).sum((2, 3))
    persistence = (weights * (inputs["before"] - targets) ** 2).sum((2, 3))
    return {"forecast": field, "loss": (of_output * squares).mean(1).sum(), "rmse": squares.sqrt().sum(0),
            "bias": (weights * error).sum((2, 3)).sum(0), "persistence": persistence.sum(0)}
