"""Trains the network of a configuration of terrace in PyTorch for so many seconds of processor time, and prints its errors.

    peer.py RESOLVED.toml SECONDS THREADS

RESOLVED.toml is what a run of terrace keeps of its configuration. The network, its initial values, the loss, the batches and
AdamW are those that the file describes, in bf16 by autocast where the run was in bf16: one patch embedding a variable, attention of one query to the variables at each place,
pre-norm blocks, and a head whose output is added to the damped anomaly. Modules are PyTorch's own, with fused attention and the
fused AdamW. The learning rate falls as the time is used up, in place of the steps. The last line is a JSON object with
the errors of the held-out split as terrace defines them (docs/weather.md), in deviations.
"""
import json
import math
import sys
import time
import tomllib

import netCDF4
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Fields:
    """The prepared dataset in memory, normalised: fields, climatology of each time [time, variable, latitude, longitude]."""

    def __init__(self, prefix, names):
        with open(prefix + ".json", encoding="utf-8") as file:
            about = json.load(file)
        known = [variable["name"] for variable in about["variables"]]
        index = [known.index(name) for name in names]
        moments = [about["variables"][i] for i in index]
        mean = np.array([one["mean"] for one in moments], np.float32)[:, None, None]
        deviation = np.array([one["deviation"] for one in moments], np.float32)[:, None, None]
        with netCDF4.Dataset(prefix + ".nc") as file:
            file.set_auto_mask(False)
            self.values = np.empty((len(about["times"]), len(index), *file["fields"].shape[2:]), np.float32)
            for first in range(0, len(self.values), 200):
                self.values[first : first + 200] = (file["fields"][first : first + 200][:, index] - mean) / deviation
            self.climatology = torch.from_numpy((file["climatology"][:][:, index] - mean) / deviation)
            dates = netCDF4.num2date(about["times"], "seconds since 1970-01-01", about["calendar"])
        self.values = torch.from_numpy(self.values)
        self.months = torch.tensor([date.month - 1 for date in dates])
        weights = np.cos(np.deg2rad(about["latitudes"]))
        self.weights = torch.tensor(weights / weights.mean(), dtype=torch.float32)[:, None]
        self.splits = {name: (split["first_time"], split["end_time"]) for name, split in about["splits"].items()}
        self.hours = about["step"]["seconds"] // 3600


class Aggregation(nn.Module):
    """A token of each variable's patch, and one query that attends to them: [B, C, H, W] to [B, L, D]."""

    def __init__(self, channels, patch, width, heads):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Conv2d(1, width, patch, patch) for _ in range(channels))
        self.variables = nn.Parameter(sines(torch.arange(channels), width))
        self.query = nn.Parameter(torch.zeros(1, 1, width))
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, fields):
        tokens = torch.stack(
            [embedding(fields[:, c : c + 1]).flatten(2).transpose(1, 2) for c, embedding in enumerate(self.embeddings)], 2
        )
        samples, places, channels, width = tokens.shape
        tokens = (tokens + self.variables).flatten(0, 1)
        query = self.query.expand(len(tokens), -1, -1)
        return self.attention(query, tokens, tokens, need_weights=False)[0].view(samples, places, width)


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.joint, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        joint = self.joint(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.output(F.scaled_dot_product_attention(*joint).transpose(1, 2).flatten(2))
        return x + self.second(F.gelu(self.first(self.norms[1](x))))


def sines(positions, width):
    angles = positions[:, None] * 10000.0 ** -(torch.arange(width // 2) / (width // 2))
    return torch.cat([angles.sin(), angles.cos()], 1)


class Network(nn.Module):
    def __init__(self, model):
        super().__init__()
        width, patch, (rows, columns) = model["width"], model["patch"], model["grid"]
        self.patch, self.shape = patch, (rows // patch, columns // patch)
        place = torch.arange(self.shape[0] * self.shape[1])
        positions = torch.cat([sines(place % self.shape[1], width // 2), sines(place // self.shape[1], width // 2)], 1)
        self.positions = nn.Parameter(positions)
        blocks = [Block(width, model["heads"], int(model["mlp_ratio"] * width)) for _ in range(model["layers"])]
        self.blocks = nn.Sequential(*blocks)
        head = [layer for _ in range(model["head_layers"]) for layer in (nn.Linear(width, width), nn.GELU())]
        outputs = len(model["outputs"])
        self.head = nn.Sequential(nn.LayerNorm(width), *head, nn.Linear(width, outputs * patch**2))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        self.aggregation = Aggregation(len(model["variables"]), patch, width, model["heads"])
        self.damping = nn.Parameter(torch.full((outputs, rows, columns), 0.5))

    def forward(self, inputs, anomaly, climatology):
        x = self.head(self.blocks(self.aggregation(inputs) + self.positions))
        patches = x.unflatten(1, self.shape).unflatten(-1, (self.patch, self.patch, -1))  # [B, R, C, P, P, V]
        field = patches.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)
        return climatology + self.damping * anomaly + field


class Batches:
    def __init__(self, config, fields):
        data, model = config["data"], config["model"]
        self.fields = fields
        self.steps = round(data["leads"][0] / 3600) // fields.hours
        self.outputs = [model["variables"].index(name) for name in model["outputs"]]
        self.turned = data.get("turned", False)

    def starts(self, split):
        """Of training samples both times lie in the part, of others the time that is predicted."""
        first, end = self.fields.splits[split]
        return torch.arange(first if split == "train" else max(0, first - self.steps), end - self.steps)

    def training_batch(self, starts):
        """As batch(), with each sample turned by columns of its own where data.turned is true."""
        (inputs, anomaly, climatology), targets = self.batch(starts)
        if not self.turned:
            return (inputs, anomaly, climatology), targets
        turns = torch.randint(inputs.shape[-1], (len(starts),)).tolist()

        def turn(fields):
            return torch.stack([field.roll(by, -1) for field, by in zip(fields, turns)])

        return (turn(inputs), turn(anomaly), turn(climatology)), turn(targets)

    def batch(self, starts):
        fields, targets = self.fields, starts + self.steps
        inputs = fields.values[starts]
        anomaly = inputs[:, self.outputs] - fields.climatology[fields.months[starts]][:, self.outputs]
        climatology = fields.climatology[fields.months[targets]][:, self.outputs]
        return (inputs, anomaly, climatology), fields.values[targets][:, self.outputs]


def parameter_groups(network, decay):
    plain = [parameter for name, parameter in network.named_parameters() if parameter.ndim > 1 and name not in
             ("positions", "damping", "aggregation.variables", "aggregation.query")]  # fmt: skip
    chosen = {id(parameter) for parameter in plain}
    others = [parameter for parameter in network.parameters() if id(parameter) not in chosen]
    return [{"params": plain, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def refuse_other_networks(config):
    model, data = config["model"], config["data"]
    wanted = {"predicts": "damped_anomaly", "lead_embedding": False, "time_inputs": False, "qk_norm": False, "dropout": 0,
              "drop_path": 0}  # fmt: skip
    others = [f"model.{key} = {model.get(key)}" for key, value in wanted.items() if model.get(key, value) != value]
    others += [f"data.{key} = {data[key]}" for key, value in {"inputs": 1, "constants": []}.items() if data[key] != value]
    if others or len(data["leads"]) != 1 or model["grid"][0] % model["patch"]:
        sys.exit(f"peer.py has not this network: {', '.join(others) or 'leads or grid'}")


def main():
    path, seconds, threads = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    with open(path, "rb") as file:
        config = tomllib.load(file)
    refuse_other_networks(config)
    torch.set_num_threads(threads)
    model, train, optimizer = config["model"], config["train"], config["optimizer"]
    torch.manual_seed(train["seed"])
    batches = Batches(config, Fields(config["data"]["fields"], model["variables"]))
    network = Network(model)
    adamw = torch.optim.AdamW(parameter_groups(network, optimizer["weight_decay"]), lr=optimizer["learning_rate"],
                              betas=(optimizer["beta1"], optimizer["beta2"]), eps=optimizer["epsilon"], fused=True)  # fmt: skip
    weights = torch.tensor([model["loss_weights"].get(name, 1.0) for name in model["outputs"]])
    weights = weights / weights.mean()
    of_latitude = batches.fields.weights
    starts, order, step = batches.starts("train"), torch.empty(0, dtype=torch.long), 0
    began = last = time.process_time()
    while (elapsed := time.process_time() - began) < seconds:
        if len(order) < train["global_batch"]:
            order = torch.cat([order, starts[torch.randperm(len(starts))]])
        inputs, targets = batches.training_batch(order[: train["global_batch"]])
        order = order[train["global_batch"] :]
        rate = optimizer["learning_rate"] * min(1, (step + 1) / optimizer["warmup_steps"]) * (1 + math.cos(math.pi * elapsed / seconds)) / 2
        for group in adamw.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16, enabled=train["precision"] == "bf16"):
            predicted = network(*inputs)
        squares = ((predicted.float() - targets).square() * of_latitude).mean((2, 3))
        loss = (squares * weights).mean()
        adamw.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), optimizer["clip"])
        adamw.step()
        step += 1
        if time.process_time() - last > 10:
            last = time.process_time()
            print(f"step {step}, {last - began:.0f} of {seconds:.0f} s: loss {loss.item():.4f}", file=sys.stderr, flush=True)
    network.eval()
    errors = []
    with torch.no_grad():
        for part in batches.starts("test").split(32):
            inputs, targets = batches.batch(part)
            errors.append(((network(*inputs) - targets).square() * of_latitude).mean((2, 3)).sqrt())
    print(json.dumps({"steps": step, "rmse": dict(zip(model["outputs"], torch.cat(errors).mean(0).tolist()))}))


if __name__ == "__main__":
    main()
