"""Runs steps of a peer's network; takes the same commands as bench/step/trainer.cpp.

    peer.py WORKLOAD PEER eager|compile|ddp installed|tuned MOLECULES.xyz

WORKLOAD is what Workload.spec() writes; ddp are two processes, each with every other graph of a step. The batches are made before, neighbours included, and lie in memory. AdamW is the
fused one. """
import os
import pathlib
import sys
import types

import numpy as np
import torch

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(BENCH / "step"), str(BENCH / "layouts")]
from graph_data import edges_of  # noqa: E402
from graph_workloads import BATCH, CLIP, LEARNING_RATE, RADIUS, WEIGHT_DECAY, Workload  # noqa: E402
from networks import energies_and_forces, network_of  # noqa: E402
from serve import serve  # noqa: E402


def batch_of(molecules, workload):
    batch, before = types.SimpleNamespace(graphs=len(molecules)), 0
    parts = {name: [] for name in ("species", "receivers", "senders", "vectors", "graph", "forces", "energies")}
    for number, atoms in enumerate(molecules):
        i, j, vectors = edges_of(atoms.positions, RADIUS, workload.cap)
        parts["species"].append(atoms.numbers)
        parts["receivers"].append(i + before)
        parts["senders"].append(j + before)
        parts["vectors"].append(vectors)
        parts["graph"].append(np.full(len(atoms), number))
        parts["forces"].append(atoms.arrays["force"])
        parts["energies"].append([atoms.info["total_energy"]])
        before += len(atoms)
    for name, arrays in parts.items():
        values = torch.from_numpy(np.concatenate(arrays).copy())
        setattr(batch, name, values.float() if values.is_floating_point() else values.long())
    batch.edge_index = torch.stack([batch.senders, batch.receivers])
    batch.atoms_of_graph = torch.bincount(batch.graph)
    batch.mean_energy = batch.energies / batch.atoms_of_graph
    return batch


def loss_of(model, batch, forces):
    if forces:
        energies, own = energies_and_forces(model, batch, True)
    else:
        energies = model(batch, batch.vectors)
    loss = (energies / batch.atoms_of_graph - batch.mean_energy).square().mean()
    return loss + 10 * (own - batch.forces).square().mean() if forces else loss


def main():
    spec, peer, how, _, path = sys.argv[1:]
    import ase.io

    workload, other, rank, ranks = Workload.of(spec), None, 0, 1
    if how == "ddp":
        import torch.distributed as dist
        from two_processes import RANKS, lines, start_other

        other, ranks = start_other(), RANKS
        dist.init_process_group("gloo")
        rank = dist.get_rank()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))
    torch.manual_seed(1)
    molecules = ase.io.read(path, ":")
    batches = [batch_of(molecules[first + rank:first + BATCH:ranks], workload) for first in range(0, len(molecules), BATCH)]
    degrees = torch.bincount(torch.cat([torch.bincount(batch.receivers, minlength=len(batch.species)) for batch in batches]))
    model = network_of(workload, peer, RADIUS, degrees)
    if how == "compile":
        model = torch.compile(model, dynamic=True)
    if how == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    number = 0

    def step():
        nonlocal number
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, batches[number % len(batches)], workload.forces)
        number += 1
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    if how != "ddp":
        serve(step)
        return
    serve(step, lines(other), prints=other is not None)
    sys.stdout.flush()
    if other:
        other.wait()
    os._exit(0)  # Gloo may hang when it is taken down


if __name__ == "__main__":
    main()
