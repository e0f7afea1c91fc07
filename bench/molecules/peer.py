"""The network of molecules.toml in SchNetPack: trains it on the prepared molecules, and writes its errors of the test part.

    peer.py CONFIG.toml PREFIX --steps N --seed S --output ERRORS.json

The same loss, optimizer, schedule and number of steps as terrace's, in fp32 with two threads. Energies are those of the sum of a
number for each element, fitted to the training part, and both are divided by the root mean square of the training forces.
"""
import argparse
import json
import math
import os
import pathlib
import sys
import time
import tomllib
import types

import numpy as np
import torch

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(1, str(BENCH / "gnn"))
from graph_data import edges_of, prepared_arrays  # noqa: E402
from graph_workloads import Workload  # noqa: E402
from networks import energies_and_forces, network_of  # noqa: E402


class Molecules:
    """What `terrace data prepare` wrote."""

    def __init__(self, prefix):
        arrays = prepared_arrays(prefix)
        for name in ("first_atom", "positions", "species", "train", "validation", "test", "energy", "forces"):
            setattr(self, name, arrays[name])
        self.edges = []

    def find_edges(self, radius):
        """Those of every molecule."""
        self.edges = [edges_of(self.positions[first:end], radius) for first, end in zip(self.first_atom[:-1], self.first_atom[1:])]

    def rows_of(self, molecules):
        """The numbers of their atoms."""
        return np.concatenate([np.arange(self.first_atom[one], self.first_atom[one + 1]) for one in molecules])

    def of_atoms(self, molecules):
        """Energy [molecules] and numbers of the elements [molecules, 119], both divided by the number of atoms."""
        atoms = self.first_atom[molecules + 1] - self.first_atom[molecules]
        counts = np.stack([np.bincount(self.species[self.rows_of([one])], minlength=119) for one in molecules])
        return self.energy[molecules, 0] / atoms, counts / atoms[:, None]

    def batch(self, molecules):
        parts = {name: [] for name in ("species", "receivers", "senders", "vectors", "graph", "forces")}
        before = 0
        for number, one in enumerate(molecules):
            first, end = self.first_atom[one], self.first_atom[one + 1]
            i, j, vectors = self.edges[one]
            parts["species"].append(self.species[first:end])
            parts["receivers"].append(i + before)
            parts["senders"].append(j + before)
            parts["vectors"].append(vectors)
            parts["graph"].append(np.full(end - first, number))
            parts["forces"].append(self.forces[first:end])
            before += end - first
        batch = types.SimpleNamespace(graphs=len(molecules))
        for name, arrays in parts.items():
            values = torch.from_numpy(np.concatenate(arrays))
            setattr(batch, name, values.float() if values.is_floating_point() else values.long())
        batch.atoms_of_graph = torch.bincount(batch.graph)
        return batch


def fitted_to_elements(molecules):
    """[119] the energy of each element by which those of the training part are nearest."""
    energies, shares = molecules.of_atoms(molecules.train)
    return np.linalg.lstsq(shares, energies, rcond=None)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    config = tomllib.loads(options.config.read_text())
    model_keys, optimizer_keys, batch_size = config["model"], config["optimizer"], config["train"]["global_batch"]
    of_energy, of_force = (output.get("weight", 1.0) for output in config["model"]["outputs"])
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(options.seed)
    molecules = Molecules(options.prefix)
    molecules.find_edges(model_keys["radius"])
    train, test = molecules.train, molecules.test
    of_elements = fitted_to_elements(molecules)
    scale = math.sqrt(np.square(molecules.forces[molecules.rows_of(train)]).mean())
    workload = Workload(model_keys["conv"], model_keys["width"], model_keys["layers"], model_keys["radial"])
    model = network_of(workload, "schnetpack", model_keys["radius"], None)
    decayed = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": optimizer_keys["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
        lr=optimizer_keys["learning_rate"], fused=True)  # fmt: skip
    warmup = optimizer_keys["warmup_steps"]

    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return (1 + math.cos(math.pi * (step - warmup) / max(1, options.steps - warmup))) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    draw, order, begin = np.random.default_rng(options.seed), [], time.time()
    energies, shares = molecules.of_atoms(train)
    target = dict(zip(train, (energies - shares @ of_elements) / scale))
    for step in range(options.steps):
        while len(order) < batch_size:
            order.extend(draw.permutation(train))
        chosen, order = order[:batch_size], order[batch_size:]
        batch = molecules.batch(chosen)
        optimizer.zero_grad(set_to_none=True)
        own, forces = energies_and_forces(model, batch, True)
        wanted = torch.tensor([target[one] for one in chosen], dtype=torch.float32)
        of_energies = (own / batch.atoms_of_graph - wanted).square().mean()
        of_forces = (forces - batch.forces / scale).square().mean()
        loss = (of_energy * of_energies + of_force * of_forces) / (of_energy + of_force)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), optimizer_keys["clip"])
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1} of {options.steps}: loss {loss.item():.4f}, {(time.time() - begin) / (step + 1):.3f} s a step",
                  file=sys.stderr, flush=True)  # fmt: skip
    energies, shares = molecules.of_atoms(test)
    atom_errors, force_errors = [], []
    for first in range(0, len(test), batch_size):
        chosen = test[first:first + batch_size]
        batch = molecules.batch(chosen)
        own, forces = energies_and_forces(model, batch, False)
        part = slice(first, first + batch_size)
        value = scale * (own / batch.atoms_of_graph).detach().numpy() + shares[part] @ of_elements
        atom_errors.append(np.abs(value - energies[part]))
        force_errors.append(np.abs(scale * forces.detach().numpy() - batch.forces.numpy()).ravel())
    errors = {"energy": float(np.concatenate(atom_errors).mean()), "forces": float(np.concatenate(force_errors).mean()),
              "seconds": time.time() - begin}  # fmt: skip
    options.output.write_text(json.dumps(errors) + "\n")


if __name__ == "__main__":
    main()
