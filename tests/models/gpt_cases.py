"""A GPT in plain PyTorch, from the papers and not from terrace; it reads terrace's parameters by their names."""

import math

import torch
import torch.nn.functional as F


def norm(x, inputs, name, options):
    weight = inputs[name + ".weight"]
    if options["norm"] == "rmsnorm":
        return F.rms_norm(x, weight.shape, weight, options["norm_epsilon"])
    if options["norm"] == "rmsnorm_1p":
        return F.rms_norm(x, weight.shape, 1 + weight, options["norm_epsilon"])
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
    if options["rope_scaling"] == "yarn":
        # The number i of the pair for which original / (2 pi / theta^(-i / half)) is the number of turns.
        first, last = (half * math.log(original / (2 * math.pi * options[turns])) / math.log(options["theta"])
                       for turns in ("rope_beta_fast", "rope_beta_slow"))
        if options["rope_truncate"]:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * half - 1)
        stretched = ((torch.arange(half, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
        return frequencies * (1 - stretched) + frequencies / factor * stretched
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
    scale = options["rope_attention_factor"] if options["rope_scaling"] == "yarn" else 1.0
    cosine, sine = (angles.cos() * scale).to(x.dtype), (angles.sin() * scale).to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


def attention(x, inputs, name, options, positions, mask):
    batch, length, _ = x.shape
    groups, heads, head_dim = options["kv_heads"], options["heads"], options["head_dim"]
    per_group = heads // groups
    # The rows of the joint projection go by groups: the queries of the group, its key, its value.
    joint = project(x, inputs, name + ".qkv").view(batch, length, groups, per_group + 2, head_dim)
    queries = joint[:, :, :, :per_group].reshape(batch, length, heads, head_dim).transpose(1, 2)
    keys = joint[:, :, :, per_group].transpose(1, 2).repeat_interleave(per_group, 1)
    values = joint[:, :, :, per_group + 1].transpose(1, 2).repeat_interleave(per_group, 1)
    if options["qk_norm"]:
        rms = options | {"norm": "rmsnorm_1p" if options["norm"] == "rmsnorm_1p" else "rmsnorm"}
        queries, keys = norm(queries, inputs, name + ".query_norm", rms), norm(keys, inputs, name + ".key_norm", rms)
    if options["positions"] == "rotary":
        queries, keys = rotate(queries, positions, options), rotate(keys, positions, options)
    scale = (options["query_scalar"] or head_dim) ** -0.5
    context = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scale)
    return project(context.transpose(1, 2).reshape(batch, length, heads * head_dim), inputs, name + ".output")


def activated(inner, options):
    if options["activation"] == "swiglu":
        return F.silu(inner[..., 0::2]) * inner[..., 1::2]
    if options["activation"] == "geglu":
        return F.gelu(inner[..., 0::2], approximate="tanh") * inner[..., 1::2]
    return F.gelu(inner, approximate="none" if options["activation"] == "gelu_erf" else "tanh")


def feed_forward(x, inputs, name, options):
    return project(activated(project(x, inputs, name + ".first"), options), inputs, name + ".second")


def chosen(scores, options):
    """The experts of each token: the k best of the groups with the largest sums of their two best."""
    groups, kept, count = options["expert_groups"], options["expert_groups_kept"], scores.shape[-1]
    if kept < groups:
        size = count // groups
        sums = scores.unflatten(-1, (groups, size)).topk(min(2, size), dim=-1).values.sum(-1)
        open_groups = torch.zeros_like(sums).scatter(-1, sums.topk(kept, dim=-1).indices, 1.0)
        scores = scores.masked_fill(open_groups.repeat_interleave(size, dim=-1) == 0, -math.inf)
    return scores.topk(options["experts_per_token"], dim=-1).indices


def sparse(x, inputs, name, options):
    """The routed and the shared experts of x [B, T, D], and the router's losses of all sequences."""
    batch, length, _ = x.shape
    count, k = options["experts"], options["experts_per_token"]
    wide = x if x.dtype == torch.float64 else x.float()
    z = F.linear(wide, inputs[name + ".router.weight"].to(wide.dtype))
    sigmoid = options["router"] == "sigmoid"
    scores = z.sigmoid() if sigmoid else z.softmax(-1)
    bias = options.get("router_bias", {}).get(name + ".router_bias", [0.0] * count)
    choice = chosen(scores + torch.tensor(bias, dtype=torch.float32).to(scores.dtype), options)
    weights = scores.gather(-1, choice)
    if options["router_normalise"]:
        weights = weights / (weights.sum(-1, keepdim=True) + (1e-20 if sigmoid else 0))
    weights = weights * options["router_factor"]
    y = torch.zeros_like(wide)
    for token in range(batch * length):
        b, t = divmod(token, length)
        for slot in range(k):
            expert = choice[b, t, slot]
            inner = activated(inputs[name + ".experts.first.weight"][expert] @ x[b, t], options)
            y[b, t] = y[b, t] + weights[b, t, slot] * (inputs[name + ".experts.second.weight"][expert] @ inner)
    y = y.to(x.dtype)
    if options["shared_experts"] > 0:
        shared = feed_forward(x, inputs, name + ".shared", options)
        if options["shared_gate"]:
            shared = shared * project(x, inputs, name + ".shared_gate").sigmoid()
        y = y + shared
    shares = scores / scores.sum(-1, keepdim=True)
    counts = F.one_hot(choice, count).sum((1, 2)).to(wide.dtype)
    balance = (count / (k * length**2) * counts * shares.sum(1)).sum()
    z_loss = z.logsumexp(-1).square().sum() / length
    return y, options["balance_loss"] * balance + options["z_loss"] * z_loss


def gpt(inputs, options):
    tokens, targets = inputs["tokens"], inputs["targets"]
    batch, length = tokens.shape
    positions = inputs.get("positions", torch.arange(length).expand(batch, length))
    whole = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    if "documents" in inputs:
        documents = inputs["documents"]
        whole = whole & (documents[:, None, :, None] == documents[:, None, None, :])
    near = whole
    if options["window"] > 0:
        near = whole & (torch.arange(length)[:, None] - torch.arange(length) < options["window"])
    local = options | {"theta": options["local_theta"], "rope_scaling": "none"} if options["local_theta"] > 0 else options
    x = F.embedding(tokens, inputs["embedding.tokens.weight"])
    if options["scaled_embeddings"]:
        x = x * torch.tensor(math.sqrt(x.shape[-1]), dtype=x.dtype)
    if options["positions"] == "learned":
        x = x + F.embedding(positions, inputs["embedding.positions.weight"])
    router_loss = torch.zeros((), dtype=x.dtype)
    for layer in range(options["layers"]):
        block = f"blocks.{layer}"
        every = options["global_every"]
        is_global = every > 0 and (layer + 1) % every == 0
        own, mask = (options, whole) if is_global else (local if every > 0 else options, near)
        normed = norm(x, inputs, block + ".attention_norm", options)
        branch = attention(normed, inputs, block + ".attention", own, positions, mask)
        x = x + (norm(branch, inputs, block + ".attention.output_norm", options) if options["post_norms"] else branch)
        normed = norm(x, inputs, block + ".ffn_norm", options)
        if options["experts"] > 0 and layer >= options["dense_layers"]:
            branch, own_loss = sparse(normed, inputs, block + ".ffn", options)
            router_loss = router_loss + own_loss
        else:
            branch = feed_forward(normed, inputs, block + ".ffn", options)
        x = x + (norm(branch, inputs, block + ".ffn_output_norm", options) if options["post_norms"] else branch)
    x = norm(x, inputs, "head.norm", options)
    output = inputs["embedding.tokens.weight" if options["tied_head"] else "head.output.weight"]
    logits = F.linear(x, output)[..., : options["vocabulary"]]
    if logits.dtype != torch.float64:
        logits = logits.float()
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1, reduction="sum")
    # The router's losses have gradients, and are no part of the loss that is reported.
    return {"loss": loss + (router_loss - router_loss.detach()), "logits": logits}
