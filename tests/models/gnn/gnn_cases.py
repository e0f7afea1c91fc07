"""Graph networks in PyTorch, from the papers and not from terrace: layers of torch_geometric where it has them, else plain
ones. It reads terrace's parameters by their names."""

import math

import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch_geometric.nn import (CGConv, GATv2Conv, GINConv, PNAConv, global_add_pool, global_max_pool,
                                global_mean_pool)
from torch_geometric.nn.models.schnet import InteractionBlock

ACTIVATIONS = {"relu": F.relu, "silu": F.silu, "tanh": torch.tanh, "gelu": F.gelu, "softplus": F.softplus,
               "shifted_softplus": lambda x: F.softplus(x) - math.log(2)}


class Parameters:
    """The parameters below a name."""

    def __init__(self, inputs, name):
        self.inputs, self.name = inputs, name

    def __getitem__(self, key):
        return self.inputs[f"{self.name}.{key}"]

    def __contains__(self, key):
        return f"{self.name}.{key}" in self.inputs

    def below(self, key):
        return Parameters(self.inputs, f"{self.name}.{key}")

    def linear(self, x, key):
        return F.linear(x, self[key + ".weight"], self[key + ".bias"] if key + ".bias" in self else None)

    def two(self, x, key, activation):
        return self.linear(activation(self.linear(x, key + ".first")), key + ".second")


class Graph:
    """At a level, where 0 is that of the atoms."""

    def __init__(self, inputs, options, level=0):
        self.inputs, self.options = inputs, options
        self.norms, self.training = {}, True
        self.prefix = f"coarse.{level}." if level else ""
        self.vectors = inputs[self.prefix + "vectors"]
        self.receivers, self.senders = inputs[self.prefix + "receivers"], inputs[self.prefix + "senders"]
        self.of_atoms = inputs[self.prefix + "graphs"]
        self.graphs, self.atoms = inputs["first_atom"].shape[0] - 1, self.of_atoms.shape[0]
        self.edge_index = torch.stack([self.senders, self.receivers])
        self.lengths = self.vectors.norm(dim=1, keepdim=True)
        radius, number = options["radius"] * 2**level, options["radial"]
        self.radius = radius
        self.cutoff = None
        if options["cutoff"] == "cosine":
            self.cutoff = 0.5 * (torch.cos(self.lengths * math.pi / radius) + 1)
        if options["conv"] == "painn":
            steps = torch.arange(1, number + 1, dtype=self.vectors.dtype)
            self.radial = torch.sin(self.lengths * steps * (math.pi / radius)) / self.lengths
        elif number:
            spacing = radius / (number - 1)
            centres = torch.arange(number, dtype=self.vectors.dtype) * spacing
            self.radial = torch.exp(-0.5 / spacing**2 * (self.lengths - centres) ** 2)
        else:
            self.radial = None

    def sum(self, x, rows=None, count=None):
        rows, count = (self.receivers, self.atoms) if rows is None else (rows, count)
        return x.new_zeros(count, *x.shape[1:]).index_add(0, rows, x)

    def batch_norm(self, p, x):
        """Of torch, which keeps the running statistics from the pass in training for that of an evaluation."""
        norm = self.norms.setdefault(p.name, torch.nn.BatchNorm1d(x.shape[1], dtype=x.dtype)).train(self.training)
        return functional_call(norm, {"weight": p["weight"], "bias": p["bias"]}, (x,))

    def cut_off(self, x):
        return x if self.cutoff is None else x * self.cutoff

    def mean(self, x):
        if self.cutoff is not None:
            return self.sum(x * self.cutoff) / (1 + self.sum(self.cutoff))
        counts = self.sum(torch.ones_like(x[:, :1])).clamp(min=1)
        return self.sum(x) / counts


def joined(p, key):
    """One weight for [x_i, x_j, e] of the three that terrace has."""
    parts = [p[key + ".receiver.weight"], p[key + ".sender.weight"]]
    if key + ".features.weight" in p:
        parts.append(p[key + ".features.weight"])
    return torch.cat(parts, 1), p[key + ".receiver.bias"]


def schnet(p, x, graph, activation, options):
    if options["reading"] == "hydragnn":
        filters = p.two(graph.radial, "filter", ACTIVATIONS["shifted_softplus"]) * graph.cutoff
        if options["reading_version"] != 1:
            filters = filters * min(1, x.shape[1] / filters.shape[1]) ** 2
        return p.linear(graph.sum(p.linear(x, "inputs")[graph.senders] * filters), "sums")
    width, filters = x.shape[1], p["inputs.weight"].shape[0]
    block = InteractionBlock(width, graph.radial.shape[1], filters, graph.radius)
    block.act = Activation(activation)
    block.mlp[1] = block.conv.nn[1] = Activation(activation)
    weights = {"conv.lin1.weight": p["inputs.weight"], "conv.lin2.weight": p["sums.weight"],
               "conv.lin2.bias": p["sums.bias"], "lin.weight": p["output.weight"], "lin.bias": p["output.bias"]}
    for ours, theirs in (("first", 0), ("second", 2)):
        for kind in ("weight", "bias"):
            weights[f"mlp.{theirs}.{kind}"] = p[f"filter.{ours}.{kind}"]
    return x + call(block, weights, (x, graph.edge_index, graph.lengths.squeeze(1), graph.radial))


class Activation(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def call(module, weights, arguments, named=None):
    """Weights that the module shares between two of its names are given once."""
    return functional_call(module, weights, arguments, named or {}, tie_weights=True, strict=False)


def painn(p, x, vectors, graph, activation, options):
    width = x.shape[1]
    first = vectors is None
    filters = p.linear(graph.radial, "filter") * graph.cutoff
    inside = F.silu if options["reading"] == "hydragnn" else activation
    sent = p.two(x, "context", inside)[graph.senders] * filters
    directions = graph.vectors / graph.lengths
    if options["reading"] == "hydragnn":
        directions = directions / graph.lengths
    parts = sent.split(width, 1)
    messages = torch.einsum("ef,ec->ecf", parts[1], directions)
    if not first:
        messages = messages + parts[2][:, None] * vectors[graph.senders]
    x = x + graph.sum(parts[0])
    vectors = graph.sum(messages) + (0 if first else vectors)
    mixing = p["mixed.weight"]
    u, v = vectors @ mixing[:width].T, vectors @ mixing[width:].T
    norms = torch.sqrt((v * v).sum(1) + 1e-8)
    if options["reading"] == "hydragnn" and options["reading_version"] != 1:
        norms = norms.clamp(max=100)
    update = p.two(torch.cat([x, norms], 1), "update", inside).split(width, 1)
    x = x + update[0] * (u * v).sum(1) + update[1]
    vectors = vectors + update[2][:, None] * u if len(update) == 3 else None
    if options["reading"] == "hydragnn":
        x = p.two(x, "ending", torch.tanh)
        vectors = p.linear(vectors, "vector_ending") if vectors is not None else None
    return x, vectors


def egnn(p, x, edges, graph, activation, options):
    paper = options["reading"] == "paper"
    length = edges.norm(dim=1, keepdim=True)
    feature = (edges**2).sum(1, keepdim=True) if paper else length
    weight, bias = joined(p, "edges")
    both = torch.cat([x[graph.receivers], x[graph.senders], feature], 1)
    messages = activation(p.linear(activation(F.linear(both, weight, bias)), "message"))
    weight = torch.cat([p["states.weight"], p["sums.weight"]], 1)
    hidden = activation(F.linear(torch.cat([x, graph.sum(graph.cut_off(messages))], 1), weight, p["states.bias"]))
    after = p.linear(hidden, "output")
    if "move.output.weight" in p:
        size = p.linear(activation(p.linear(messages, "move.hidden")), "move.output")
        move = -edges * size if paper else (edges / (length + 1) * torch.tanh(size)).clamp(-100, 100)
        shift = graph.mean(move)
        edges = edges + shift[graph.senders] - shift[graph.receivers]
    return (x + after if paper else after), edges


def pna(p, x, graph):
    """With one tower, whose first layer reads [x_i, x_j, W_e e]: its part for the last is the identity."""
    width, edge = x.shape[1], graph.radial.shape[1]
    layer = PNAConv(width, width, ["mean", "min", "max", "std"],
                    ["identity", "amplification", "attenuation", "linear"], torch.ones(2, dtype=torch.long),
                    edge_dim=edge)
    means = graph.inputs["degree_means"].detach()
    layer.aggr_module.avg_deg_log, layer.aggr_module.avg_deg_lin = means[0], means[1]
    weight, bias = joined(p, "messages")
    eye = torch.eye(width, dtype=x.dtype)
    weights = {"edge_encoder.weight": weight[:, 2 * width:], "edge_encoder.bias": torch.zeros_like(bias),
               "pre_nns.0.0.weight": torch.cat([weight[:, : 2 * width], eye], 1), "pre_nns.0.0.bias": bias,
               "post_nns.0.0.weight": p["output.weight"], "post_nns.0.0.bias": p["output.bias"],
               "lin.weight": eye, "lin.bias": torch.zeros_like(bias)}
    return call(layer, weights, (x, graph.edge_index, graph.radial))


def gin(p, x, graph, activation):
    layer = GINConv(torch.nn.Sequential(torch.nn.Linear(1, 1), Activation(activation), torch.nn.Linear(1, 1)),
                    train_eps=True)
    weights = {"eps": p["epsilon"]}
    for ours, theirs in (("first", 0), ("second", 2)):
        for kind in ("weight", "bias"):
            weights[f"nn.{theirs}.{kind}"] = p[f"output.{ours}.{kind}"]
    return call(layer, weights, (x, graph.edge_index))


def gatv2(p, x, graph, options):
    """Its own loops would take the place of edges from an atom's images, so they are given as edges."""
    if graph.cutoff is not None:
        return smooth_gatv2(p, x, graph, options)
    heads, width = options["heads"], x.shape[1]
    slope = 0.2 if options["reading"] == "paper" else 0.05
    layer = GATv2Conv(width, width // heads, heads, edge_dim=graph.radial.shape[1], add_self_loops=False,
                      negative_slope=slope)
    loops = torch.arange(graph.atoms)
    edge_index = torch.cat([graph.edge_index, torch.stack([loops, loops])], 1)
    features = torch.cat([graph.radial, graph.mean(graph.radial)])
    weights = {"att": p["attention"][None], "bias": p["bias"], "lin_l.weight": p["sender.weight"],
               "lin_l.bias": p["sender.bias"], "lin_r.weight": p["receiver.weight"],
               "lin_r.bias": p["receiver.bias"], "lin_edge.weight": p["features.weight"]}
    return call(layer, weights, (x, edge_index, features))


def smooth_gatv2(p, x, graph, options):
    """With shares times the cutoff; an atom's own is not cut off."""
    heads, slope = options["heads"], 0.2 if options["reading"] == "paper" else 0.05
    sent, received = p.linear(x, "sender"), p.linear(x, "receiver")

    def share(hidden):
        return torch.exp((F.leaky_relu(hidden, slope).view(-1, heads, x.shape[1] // heads) * p["attention"]).sum(2))

    of_edges = sent[graph.senders] + received[graph.receivers] + p.linear(graph.radial, "features")
    shares = share(of_edges) * graph.cutoff
    own = share(sent + received + p.linear(graph.mean(graph.radial), "features"))
    values = sent.view(-1, heads, x.shape[1] // heads)
    sums = graph.sum(shares[:, :, None] * values[graph.senders]) + own[:, :, None] * values
    return (sums / (graph.sum(shares) + own)[:, :, None]).reshape(x.shape) + p["bias"]


def cgcnn(p, x, graph):
    if graph.cutoff is not None:
        z = torch.cat([x[graph.receivers], x[graph.senders], graph.radial], 1)
        gate, core = (F.linear(z, *joined(p, part)) for part in ("gate", "core"))
        return x + graph.sum(torch.sigmoid(gate) * F.softplus(core) * graph.cutoff)
    layer = CGConv(x.shape[1], dim=graph.radial.shape[1])
    weights = {}
    for ours, theirs in (("gate", "lin_f"), ("core", "lin_s")):
        weights[theirs + ".weight"], weights[theirs + ".bias"] = joined(p, ours)
    return call(layer, weights, (x, graph.edge_index, graph.radial))


class States:
    def __init__(self, x, edges):
        self.x, self.vectors, self.edges = x, None, edges


def layer(p, states, graph, options):
    conv, activation = options["conv"], ACTIVATIONS[options["activation"]]
    new = States(states.x, states.edges)
    below = p.below("conv")
    if conv == "schnet":
        new.x = schnet(below, states.x, graph, activation, options)
    elif conv == "painn":
        new.x, new.vectors = painn(below, states.x, states.vectors, graph, activation, options)
    elif conv == "egnn":
        new.x, new.edges = egnn(below, states.x, states.edges, graph, activation, options)
    elif conv == "pna":
        new.x = pna(below, states.x, graph)
    elif conv == "gin":
        new.x = gin(below, states.x, graph, activation)
    elif conv == "gatv2":
        new.x = gatv2(below, states.x, graph, options)
    else:
        new.x = cgcnn(below, states.x, graph)
    if options["norm"] == "layer":
        new.x = F.layer_norm(new.x, new.x.shape[1:], p["norm.weight"], p["norm.bias"])
    elif options["norm"] == "batch":
        new.x = graph.batch_norm(p.below("norm"), new.x)
    if options["reading"] == "hydragnn" or conv in ("pna", "gin", "gatv2"):
        new.x = activation(new.x)
    return new


def dense(p, x, activation):
    number = 0
    while f"hidden.{number}.weight" in p:
        x = activation(p.linear(x, f"hidden.{number}"))
        number += 1
    return p.linear(x, "output")


def pool(x, graph, how):
    function = {"add": global_add_pool, "mean": global_mean_pool, "max": global_max_pool}[how]
    return function(x, graph.of_atoms, graph.graphs)


def heads(p, states, graph, options, last_x, last):
    activation = ACTIVATIONS[options["activation"]]
    pooled, number = pool(last_x, last, options["pooling"]), 0
    while f"shared.{number}.weight" in p:
        pooled = activation(p.linear(pooled, f"shared.{number}"))
        number += 1
    given = []
    for output in options["outputs"]:
        if output["derivative_of"]:
            given.append(None)
            continue
        below, own, number = p.below(output["name"]), states, 0
        while any(name.startswith(f"{below.name}.layers.{number}.") for name in p.inputs):
            own = layer(below.below(f"layers.{number}"), own, graph, options)
            number += 1
        x = pooled if output["level"] == "graph" and output["head"] != "atomwise" else own.x
        given.append(dense(below.below("dense"), x, activation))
    return given


def values(inputs, graph, options):
    """Mean and variance of each output, in units of the normalised property."""
    x = inputs["embedding.elements.weight"][inputs["species"]]
    if "embedding.atom_features.weight" in inputs:
        x = x + F.linear(inputs["atom_features"], inputs["embedding.atom_features.weight"])
    if "embedding.charge.weight" in inputs:
        x = x + F.linear(inputs["charges"][graph.of_atoms][:, None], inputs["embedding.charge.weight"])
    states, levels, finer = States(x, graph.vectors), [graph], []
    for number in range(options["layers"]):
        if options["pool_every"] and number and number % options["pool_every"] == 0:
            levels.append(Graph(inputs, options, len(levels)))
            finer.append(states.x)
            states = States(global_mean_pool(states.x, levels[-1].inputs[levels[-1].prefix + "clusters"],
                                             levels[-1].atoms), levels[-1].vectors)
        states = layer(Parameters(inputs, f"layers.{number}"), states, levels[-1], options)
    last_x = states.x
    for number in reversed(range(len(finer))):
        if f"unpool.{number}.weight" in inputs:
            clusters = inputs[levels[number + 1].prefix + "clusters"]
            x = finer[number] + Parameters(inputs, "unpool").linear(states.x[clusters], str(number))
            states = States(x, levels[number].vectors)
    last = (last_x, levels[-1])
    if not options["branches"]:
        given = heads(Parameters(inputs, "head"), states, graph, options, *last)
    else:
        branches = [heads(Parameters(inputs, f"head.{b}"), states, graph, options, *last)
                    for b in range(options["branches"])]
        given = []
        for of_output in zip(*branches):
            is_graphs = of_output[0].shape[0] == graph.graphs
            own = inputs["branches"] if is_graphs else inputs["branches"][graph.of_atoms]
            given.append(torch.stack(of_output)[own, torch.arange(own.shape[0])])
    result = {}
    atoms = torch.bincount(graph.of_atoms, minlength=graph.graphs)[:, None].to(x.dtype)
    for output, raw in zip(options["outputs"], given):
        if raw is None:
            continue
        columns = output["columns"]
        mean, variance = raw[:, :columns], None
        if output["uncertain"]:
            variance = F.softplus(raw[:, columns:])
        if output["head"] == "atomwise":
            mean = graph.sum(mean, graph.of_atoms, graph.graphs)
            variance = None if variance is None else graph.sum(variance, graph.of_atoms, graph.graphs)
        elif output["per_atom"]:
            mean = mean * atoms
            variance = None if variance is None else variance * atoms**2
        result[output["name"]] = (mean, None if variance is None else variance + 1e-6)
    for output in options["outputs"]:
        if not output["derivative_of"]:
            continue
        energy = result[output["derivative_of"]][0].sum()
        g = torch.autograd.grad(energy, graph.vectors, create_graph=True)[0]
        if output["derivative"] == "forces":
            mean = graph.sum(g) - graph.sum(g, graph.senders, graph.atoms)
        else:
            outer = g[:, :, None] * graph.vectors[:, None, :]
            outer = ((outer + outer.transpose(1, 2)) / 2).reshape(-1, 9)
            of_edges = graph.of_atoms[graph.receivers]
            mean = graph.sum(outer, of_edges, graph.graphs) / inputs["volumes"][:, None]
        result[output["name"]] = (mean, None)
    return result


def spread_of(values, labelled):
    """The sum over the columns of the largest less the least of the labelled numbers."""
    spread = torch.zeros((), dtype=values.dtype)
    for column, counts in zip(values.T, labelled.T):
        counted = column[counts > 0]
        if len(counted) > 0:
            spread = spread + counted.max() - counted.min()
    return spread


def gnn(inputs, options):
    graph = Graph(inputs, options)
    results = {}
    of_outputs = values(inputs, graph, options)
    for name, norm in graph.norms.items():
        results["buffer." + name + ".running_mean"] = norm.running_mean.clone()
        results["buffer." + name + ".running_variance"] = norm.running_var.clone()
    graph.training = False
    evaluated = values(inputs, graph, options) if graph.norms else of_outputs
    for output in options["outputs"]:
        name = output["name"]
        mean, variance = of_outputs[name]
        results["value." + name] = evaluated[name][0] * inputs["scales." + name] + inputs["offsets." + name]
        given, label = mean.detach(), inputs["targets." + name]
        error = mean - label
        if output["per_atom"]:
            atoms = torch.bincount(graph.of_atoms, minlength=graph.graphs)[:, None].to(error.dtype)
            error, given, label = error / atoms, given / atoms, label / atoms
            variance = None if variance is None else variance / atoms**2
        if variance is not None:
            loss = F.gaussian_nll_loss(error, torch.zeros_like(error), variance, reduction="none", eps=1e-12)
        elif output["loss"] == "huber":
            loss = F.huber_loss(error, torch.zeros_like(error), reduction="none")
        else:
            loss = error**2 if output["loss"] == "mse" else error.abs()
        labelled = inputs["labelled." + name]
        results["loss." + name] = (loss * labelled).sum()
        in_units = error.detach() * inputs["scales." + name] * labelled
        results["errors." + name] = torch.stack([in_units.abs().sum(), (in_units**2).sum(), spread_of(given, labelled), spread_of(label, labelled)])
    return results
