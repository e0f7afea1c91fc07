"""SchNet and PaiNN are those of SchNetPack with the same weights: energies, forces and gradients of the weights in double precision to
1e-10, where terrace's network is that of tests/models/gnn/gnn_cases.py, which GnnAgainstPyTorch holds to it; and energies and forces of
`terrace predict` in fp32, whose errors are at most twice SchNetPack's, plus one rounding."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
if not (ROOT / ".deps/graph_peers/schnetpack").is_dir():
    print("skipped: SchNetPack is not installed in .deps/graph_peers; bench/gnn/networks.py says how")
    sys.exit(77)
sys.path[1:1] = [str(ROOT / folder) for folder in ("bench/gnn", "tests/models/gnn", "tests/cli")]

import ase.io  # noqa: E402
import gnn_cases  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from ase.neighborlist import neighbor_list  # noqa: E402
from graph_workloads import Workload  # noqa: E402
from networks import network_of  # noqa: E402
from potential import potential_config  # noqa: E402
from predict_test import clusters  # noqa: E402  # which takes the build folder off the arguments
from commands_test import terrace  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.func import functional_call  # noqa: E402

LAYERS, WIDTH, RADIAL, RADIUS = 3, 16, 12, 4.0
CHANGES = {"layers = 2": f"layers = {LAYERS}", "per_atom = true": f'head = "atomwise"\nper_atom = true\nlayers = 1\nwidth = {WIDTH // 2}'}


def config_of(conv):
    text = potential_config("clusters", conv, 60).replace('"schnet"', f'"{conv}"')
    for old, new in CHANGES.items():
        text = text.replace(old, new, 1)
    return text


def with_zeros(weight, rows):
    """The parts that terrace leaves out: SchNetPack multiplies them by vectors that are 0, or makes vectors that nothing reads."""
    return torch.cat([weight, weight.new_zeros(rows - weight.shape[0], *weight.shape[1:])])


def mapped(conv, weights):
    """The weights by SchNetPack's names."""
    mapping = {"representation.embedding.weight": weights["embedding.elements.weight"]}
    for ours, theirs in (("hidden.0", "0"), ("output", "2")):
        for kind in ("weight", "bias"):
            mapping[f"head.layers.{theirs}.{kind}"] = weights[f"head.energy.dense.{ours}.{kind}"]
    filters = {"weight": [], "bias": []}
    for number in range(LAYERS):
        own = {name.removeprefix(f"layers.{number}.conv."): value for name, value in weights.items()}
        layer = f"representation.interactions.{number}."
        if conv == "schnet":
            names = {"inputs": "in2f", "sums": "f2out.0", "output": "f2out.1", "filter.first": "filter_network.0",
                     "filter.second": "filter_network.1"}  # fmt: skip
            mapping |= {f"{layer}{theirs}.{kind}": own[f"{ours}.{kind}"] for ours, theirs in names.items() for kind in ("weight", "bias")
                        if f"{ours}.{kind}" in own}  # fmt: skip
            continue
        mixing = f"representation.mixing.{number}."
        u, v = own["mixed.weight"].split(WIDTH)
        mapping[mixing + "mu_channel_mix.weight"] = torch.cat([v, u])  # theirs has the one of which norms are taken first
        for kind in ("weight", "bias"):
            filters[kind].append(with_zeros(own[f"filter.{kind}"], 3 * WIDTH))
            mapping[f"{layer}interatomic_context_net.0.{kind}"] = own[f"context.first.{kind}"]
            mapping[f"{layer}interatomic_context_net.1.{kind}"] = with_zeros(own[f"context.second.{kind}"], 3 * WIDTH)
            mapping[f"{mixing}intraatomic_context_net.0.{kind}"] = own[f"update.first.{kind}"]
            h, k, g = with_zeros(own[f"update.second.{kind}"], 3 * WIDTH).split(WIDTH)
            mapping[f"{mixing}intraatomic_context_net.1.{kind}"] = torch.cat([k, g, h])
    if conv == "painn":
        mapping |= {f"representation.filter_net.{kind}": torch.cat(parts) for kind, parts in filters.items()}
    return mapping


def peer_of(conv, dtype):
    """With 119 elements in place of 100, and constants that are not rounded to fp32 in double precision."""
    model = network_of(Workload(conv, WIDTH, LAYERS, RADIAL), "schnetpack", RADIUS, None)
    model.representation.embedding = torch.nn.Embedding(119, WIDTH)
    model.to(dtype)
    basis = model.representation.radial_basis
    if conv == "schnet":
        basis.offsets = torch.linspace(0, RADIUS, RADIAL, dtype=dtype)
        basis.widths = torch.full_like(basis.offsets, RADIUS / (RADIAL - 1))
        model.head.layers[1] = gnn_cases.Activation(gnn_cases.ACTIVATIONS["shifted_softplus"])
    else:
        basis.freqs = torch.arange(1, RADIAL + 1, dtype=dtype) * (np.pi / RADIUS)
    return model


class Batch:
    """The structures, with vectors of edges that fp32 holds."""

    def __init__(self, structures, dtype):
        edges = [neighbor_list("ijD", atoms, RADIUS) for atoms in structures]
        before = np.cumsum([0, *map(len, structures)])
        joined = [np.concatenate([part + first for part, first in zip(parts, before)]) for parts in list(zip(*edges))[:2]]
        self.receivers, self.senders = map(torch.from_numpy, joined)
        self.vectors = torch.from_numpy(np.concatenate([vectors for _, _, vectors in edges])).float().to(dtype).requires_grad_(True)
        self.species = torch.from_numpy(np.concatenate([atoms.numbers for atoms in structures]))
        self.first_atom, self.graphs = torch.from_numpy(before), len(structures)
        self.atoms_of_graph = self.first_atom.diff()
        self.graph = torch.repeat_interleave(torch.arange(self.graphs), self.atoms_of_graph)


def values_of_peer(conv, weights, batch):
    """Energies [graphs] and forces [atoms, 3] in normalised units."""
    energies = functional_call(peer_of(conv, batch.vectors.dtype), mapped(conv, weights), (batch, batch.vectors))
    gradient = torch.autograd.grad(energies.sum(), batch.vectors, create_graph=True)[0]
    forces = torch.zeros(len(batch.species), 3, dtype=gradient.dtype)
    return energies, forces.index_add(0, batch.receivers, gradient).index_add(0, batch.senders, -gradient)


def values_of_cases(conv, weights, batch):
    inputs = {**weights, "vectors": batch.vectors, "receivers": batch.receivers, "senders": batch.senders, "species": batch.species,
              "graphs": batch.graph, "first_atom": batch.first_atom}  # fmt: skip
    output = {"level": "graph", "columns": 1, "head": "atomwise", "per_atom": True, "uncertain": False, "derivative_of": ""}
    options = {"conv": conv, "reading": "paper", "activation": "shifted_softplus" if conv == "schnet" else "silu", "pooling": "mean",
               "norm": "none", "layers": LAYERS, "pool_every": 0, "radius": RADIUS, "radial": RADIAL, "heads": 1, "branches": 0,
               "cutoff": "cosine", "outputs": [output | {"name": "energy"}, output | {"name": "forces", "derivative_of": "energy", "derivative": "forces"}]}
    found = gnn_cases.values(inputs, gnn_cases.Graph(inputs, options), options)
    return found["energy"][0].squeeze(1), found["forces"][0]


def setUpModule():
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    folder = SchNetPack.folder = pathlib.Path(scratch.name)
    ase.io.write(folder / "clusters.xyz", clusters(160), format="extxyz")
    SchNetPack.structures = ase.io.read(folder / "clusters.xyz", ":")
    commands = [["data", "prepare", "clusters.xyz", "--kind", "graphs", "--output", "clusters"]]
    for conv in ("schnet", "painn"):
        (folder / f"{conv}.toml").write_text(config_of(conv))
        commands += [["train", f"{conv}.toml"], ["predict", conv, "--data", "clusters.xyz", "--output", f"{conv}.xyz"]]
    for command in commands:
        result = terrace(*command, folder=folder)
        assert result.returncode == 0, result.stderr


class SchNetPack(unittest.TestCase):
    def checkpoint(self, conv):
        return next((self.folder / conv).glob("step_*"))

    def weights(self, conv, dtype):
        read = load_file(self.checkpoint(conv) / "weights.safetensors")
        self.assertGreater(min(value.abs().max().item() for value in read.values()), 0)
        return {name: value.to(dtype).requires_grad_(True) for name, value in read.items()}

    def test_networks_and_gradients_are_equal_in_double_precision(self):
        for conv in ("schnet", "painn"):
            batch, results = Batch(self.structures, torch.float64), []
            for values in (values_of_cases, values_of_peer):
                weights = self.weights(conv, torch.float64)
                energies, forces = values(conv, weights, batch)
                (energies.square().sum() + forces.square().sum()).backward()
                results.append({"energies": energies, "forces": forces} | {name: value.grad for name, value in weights.items()})
            for name, theirs in results[1].items():
                error = (results[0][name] - theirs).abs().max().item()
                self.assertLessEqual(error, 1e-10 * max(1, theirs.abs().max().item()), f"{conv} {name}")

    def test_predictions_are_as_accurate_in_fp32(self):
        for conv in ("schnet", "painn"):
            label = json.loads((self.checkpoint(conv) / "statistics.json").read_text())["labels"]["energy"]
            of_elements = {symbol: value[0] for symbol, value in label["offsets"][0]["elements"].items()}
            offsets = np.array([sum(of_elements[symbol] for symbol in atoms.get_chemical_symbols()) for atoms in self.structures])
            read = ase.io.read(self.folder / f"{conv}.xyz", ":")
            ours = (np.array([atoms.get_potential_energy() for atoms in read]), np.concatenate([atoms.get_forces() for atoms in read]))
            peers = []
            for dtype in (torch.float64, torch.float32):
                energies, forces = values_of_peer(conv, self.weights(conv, dtype), Batch(self.structures, dtype))
                peers.append([label["scale"] * part.detach().double().numpy() for part in (energies, forces)])
                peers[-1][0] += offsets
            for name, own, exact, theirs in zip(("energies", "forces"), ours, *peers):
                error, peer_error, rounding = (np.linalg.norm(part) for part in (own - exact, theirs - exact, exact * 2.0**-24))
                print(f"{conv} {name}: error {error:.2e}, SchNetPack's {peer_error:.2e}, one rounding {rounding:.2e}")
                self.assertLessEqual(error, 2 * peer_error + rounding, f"{conv} {name}")


if __name__ == "__main__":
    unittest.main()
