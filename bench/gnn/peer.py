"""Runs steps of a peer's network; takes the same commands as bench/step/trainer.cpp.

    peer.py WORKLOAD PEER eager|compile|ddp installed|tuned MOLECULES [--batch 32] [--device cuda]

WORKLOAD is what Workload.spec() writes; ddp are two processes, each with every other graph of a step. MOLECULES is an .xyz file, or the
prefix of a dataset that `terrace data prepare` made. The batches are made before, neighbours included, and lie in the device's memory.
AdamW is the fused one. """
import argparse
import os
import pathlib
import sys
import types

import numpy as np
import torch

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(BENCH / "step"), str(BENCH / "layouts"), str(BENCH / "gpu")]
from graph_data import edges_of, prepared_arrays  # noqa: E402
from graph_workloads import BATCH, CLIP, LEARNING_RATE, RADIUS, WEIGHT_DECAY, Workload  # noqa: E402
from networks import energies_and_forces, network_of  # noqa: E402
from serve import serve  # noqa: E402
from torch_profile import profile  # noqa: E402


def molecules_of(path):
    if path.suffix == ".xyz":
        import ase.io

        return ase.io.read(path, ":")
    arrays = prepared_arrays(path)
    ends = arrays["first_atom"][1:-1]
    positions, numbers, forces = (np.split(arrays[name], ends) for name in ("positions", "species", "forces"))
    return [Molecule(*parts) for parts in zip(positions, numbers, forces, arrays["energy"][:, 0])]


class Molecule:
    """What batch_of reads of ASE's atoms."""

    def __init__(self, positions, numbers, forces, energy):
        self.positions, self.numbers, self.arrays, self.info = positions, numbers, {"force": forces}, {"total_energy": energy}

    def __len__(self):
        return len(self.positions)


def batch_of(molecules, workload, device):
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
        setattr(batch, name, (values.float() if values.is_floating_point() else values.long()).to(device))
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


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=Workload.of)
    parser.add_argument("peer")
    parser.add_argument("how", choices=["eager", "compile", "ddp"])
    parser.add_argument("setting", choices=["installed", "tuned"])
    parser.add_argument("molecules", type=pathlib.Path)
    parser.add_argument("--batch", type=int, default=BATCH, help="graphs of a step")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="of eager and compile")
    return parser.parse_args()


def main():
    options = read_arguments()
    workload, how, device, size = options.workload, options.how, options.device, options.batch
    other, rank, ranks = None, 0, 1
    if how == "ddp":
        import torch.distributed as dist
        from two_processes import RANKS, lines, start_other

        other, ranks = start_other(), RANKS
        dist.init_process_group("gloo")
        rank = dist.get_rank()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))
    torch.manual_seed(1)
    molecules = molecules_of(options.molecules)
    batches = [batch_of(molecules[first + rank:first + size:ranks], workload, device) for first in range(0, len(molecules), size)]
    degrees = torch.bincount(torch.cat([torch.bincount(batch.receivers, minlength=len(batch.species)) for batch in batches]))
    model = network_of(workload, options.peer, RADIUS, degrees.cpu()).to(device)
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
        serve(step, memory=torch.cuda.max_memory_reserved if device == "cuda" else None, profile=profile)
        return
    serve(step, lines(other), prints=other is not None)
    sys.stdout.flush()
    if other:
        other.wait()
    os._exit(0)  # Gloo may hang when it is taken down


if __name__ == "__main__":
    main()
