"""Graphs as the peers read them: prepared datasets of terrace, and edges by vesin."""
import json
import math

import numpy as np


def prepared_arrays(prefix):
    """The arrays and properties that `terrace data prepare --kind graphs` wrote, by name."""
    about = json.loads(prefix.with_suffix(".json").read_text())
    raw = prefix.with_suffix(".bin").read_bytes()
    arrays = {**about["arrays"], **{one["name"]: one["array"] for one in about["properties"]}}
    return {name: np.frombuffer(raw, one["type"], math.prod(one["sizes"]), one["offset"]).reshape(one["sizes"])
            for name, one in arrays.items()}  # fmt: skip


def edges_of(positions, radius, cap=0):
    """Receivers, senders and vectors, sorted by receiver; with a cap the nearest of each atom."""
    import vesin

    calculator = vesin.NeighborList(cutoff=radius, full_list=True)
    i, j, vectors = calculator.compute(points=positions, box=np.zeros((3, 3)), periodic=False, quantities="ijD")
    if cap:
        lengths, kept = np.linalg.norm(vectors, axis=1), []
        for atom in range(len(positions)):
            own = np.flatnonzero(i == atom)
            kept.extend(own[np.argsort(lengths[own], kind="stable")[:cap]])
        i, j, vectors = i[kept], j[kept], vectors[kept]
    order = np.argsort(i, kind="stable")
    return i[order].astype(np.int64), j[order].astype(np.int64), vectors[order]
