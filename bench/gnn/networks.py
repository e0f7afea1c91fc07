"""The peers' networks, from SchNetPack, PyTorch Geometric, and HydraGNN's order of layers in plain PyTorch.

None of them is a part of the set-up:

    .deps/python/bin/python -m pip install --no-deps --target .deps/graph_peers -r bench/gnn/requirements.txt
"""
import pathlib
import sys
import typing

import torch
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".deps/graph_peers"
sys.path.append(str(FOLDER))


class Atomwise(nn.Module):
    """The sum over the atoms of a graph of what a hidden layer gives."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, max(1, width // 2)), nn.SiLU(), nn.Linear(max(1, width // 2), 1))

    def forward(self, x, batch):
        energies = x.new_zeros(batch.graphs)
        return energies.index_add(0, batch.graph, self.layers(x).squeeze(1))


class SchNetPack(nn.Module):
    """representation.SchNet or PaiNN as SchNetPack's users configure them."""

    def __init__(self, workload, radius):
        super().__init__()
        import torch.utils.data.dataloader as loader

        # SchNetPack 2.1.1 takes a name from torch that newer versions no longer have.
        if not hasattr(loader, "T_co"):
            loader.T_co = typing.TypeVar("T_co", covariant=True)
        import schnetpack

        basis = schnetpack.nn.GaussianRBF if workload.conv == "schnet" else schnetpack.nn.BesselRBF
        kind = schnetpack.representation.SchNet if workload.conv == "schnet" else schnetpack.representation.PaiNN
        self.representation = kind(
            n_atom_basis=workload.width, n_interactions=workload.layers, radial_basis=basis(workload.radial, radius),
            cutoff_fn=schnetpack.nn.CosineCutoff(radius))
        self.head = Atomwise(workload.width)

    def forward(self, batch, vectors):
        inputs = {"_atomic_numbers": batch.species, "_Rij": vectors, "_idx_i": batch.receivers, "_idx_j": batch.senders,
                  "_n_atoms": batch.atoms_of_graph}
        return self.head(self.representation(inputs)["scalar_representation"], batch)


class HydraSchNet(nn.Module):
    """PyTorch Geometric's interaction blocks of SchNet on given edges."""

    def __init__(self, workload, radius):
        super().__init__()
        from torch_geometric.nn.models.schnet import GaussianSmearing, InteractionBlock

        self.embedding = nn.Embedding(119, workload.width)
        self.smearing = GaussianSmearing(0.0, radius, workload.radial)
        self.blocks = nn.ModuleList(
            InteractionBlock(workload.width, workload.radial, workload.width, radius) for _ in range(workload.layers))
        self.head = Atomwise(workload.width)

    def forward(self, batch, vectors):
        distances = vectors.norm(dim=1)
        features, x = self.smearing(distances), self.embedding(batch.species)
        for block in self.blocks:
            x = x + block(x, batch.edge_index, distances, features)
        return self.head(x, batch)


class HydraEgnn(nn.Module):
    """HydraGNN's E(n)-equivariant layers without moving atoms: two linear layers of what both atoms have and their distance."""

    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.edge = nn.Sequential(nn.Linear(2 * width + 1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
            self.node = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))

        def forward(self, x, batch, lengths):
            messages = self.edge(torch.cat([x[batch.receivers], x[batch.senders], lengths], 1))
            sums = x.new_zeros(x.shape).index_add(0, batch.receivers, messages)
            return self.node(torch.cat([x, sums], 1))

    def __init__(self, workload, radius):
        super().__init__()
        self.embedding = nn.Embedding(119, workload.width)
        self.blocks = nn.ModuleList(self.Layer(workload.width) for _ in range(workload.layers))
        self.head = Atomwise(workload.width)

    def forward(self, batch, vectors):
        lengths, x = vectors.norm(dim=1, keepdim=True), self.embedding(batch.species)
        for block in self.blocks:
            x = torch.relu(block(x, batch, lengths))
        return self.head(x, batch)


class GeometricPna(nn.Module):
    """PyTorch Geometric's PNAConv as HydraGNN sets it."""

    def __init__(self, workload, radius, degrees):
        super().__init__()
        from torch_geometric.nn import PNAConv
        from torch_geometric.nn.models.schnet import GaussianSmearing

        self.embedding = nn.Embedding(119, workload.width)
        self.smearing = GaussianSmearing(0.0, radius, workload.radial)
        self.blocks = nn.ModuleList(
            PNAConv(workload.width, workload.width, ["mean", "min", "max", "std"],
                    ["identity", "amplification", "attenuation", "linear"], degrees, edge_dim=workload.radial,
                    pre_layers=1, post_layers=1, divide_input=False)
            for _ in range(workload.layers))
        self.head = Atomwise(workload.width)

    def forward(self, batch, vectors):
        features, x = self.smearing(vectors.norm(dim=1)), self.embedding(batch.species)
        for block in self.blocks:
            x = torch.relu(block(x, batch.edge_index, features))
        return self.head(x, batch)


def energies_and_forces(model, batch, training):
    """Forces are the derivative of the energies, in training with a graph of their own."""
    vectors = batch.vectors.detach().requires_grad_(True)
    energies = model(batch, vectors)
    gradient = torch.autograd.grad(energies.sum(), vectors, create_graph=training)[0]
    forces = torch.zeros_like(batch.forces).index_add(0, batch.receivers, gradient).index_add(0, batch.senders, -gradient)
    return energies, forces


def network_of(workload, peer, radius, degrees):
    if peer == "schnetpack":
        return SchNetPack(workload, radius)
    kind = {"schnet": HydraSchNet, "egnn": HydraEgnn}.get(workload.conv)
    return kind(workload, radius) if kind else GeometricPna(workload, radius, degrees)


def peers_of(workload):
    """Those that have the layer."""
    return {"schnet": ("schnetpack", "geometric"), "painn": ("schnetpack",), "egnn": ("plain",), "pna": ("geometric",)}[
        workload.conv]
