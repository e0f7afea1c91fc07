"""Solves the steady heat equation on seeded meshes with holes, and writes each as a VTK file with values at its nodes.

    make_meshes.py FOLDER [--count 2000] [--seed 1] [--nodes 150]

div(k grad T) = -q on the unit square with one to three round holes, through whose edges no heat flows. The outer edge has the
temperature a + b x + c y. The diffusivity k is that of the plate or, in two to four round inclusions with blurred edges, another, up to
twenty times larger or smaller; q is the sum of one to three bumps. Linear elements of scikit-fem on a Delaunay triangulation of drawn points.
Values at nodes, in units of about one: log_diffusivity, source (in 4), edge (1 on the outer edge), edge_temperature (in 0.12, 0 inside),
temperature, which is to be learned, and constant: the temperature with the one diffusivity of all nodes by which it is nearest to the true one.
"""
import argparse
import pathlib
import sys
import time

import meshio
import numpy as np
import skfem
from scipy.spatial import Delaunay
from skfem.helpers import dot, grad


def draw_holes(draw):
    holes = []
    for _ in range(draw.integers(1, 4)):
        for _ in range(50):
            radius = draw.uniform(0.06, 0.15)
            middle = draw.uniform(radius + 0.08, 0.92 - radius, 2)
            if all(np.hypot(*(middle - other)) > radius + size + 0.08 for other, size in holes):
                holes.append((middle, radius))
                break
    return holes


def triangulated(draw, nodes):
    """A mesh whose nodes lie about evenly, on the edges of square and holes too."""
    holes, spacing = draw_holes(draw), 1 / np.sqrt(nodes)
    side = np.linspace(0, 1, int(round(1 / spacing)) + 1)
    edge = [(x, y) for x in side for y in (0, 1)] + [(x, y) for y in side[1:-1] for x in (0, 1)]
    circles = [middle + radius * np.array([np.cos(angle), np.sin(angle)])
               for middle, radius in holes
               for angle in np.linspace(0, 2 * np.pi, max(6, int(round(2 * np.pi * radius / spacing))), endpoint=False)]  # fmt: skip
    rows = np.arange(spacing, 1 - 0.5 * spacing, spacing * np.sqrt(3) / 2)
    inner = [(x + (0.5 * spacing if number % 2 else 0), y) for number, y in enumerate(rows) for x in side[:-1] + spacing / 2]
    inner = np.array(inner) + draw.uniform(-0.15, 0.15, (len(inner), 2)) * spacing
    away = (np.abs(inner - 0.5) < 0.5 - 0.55 * spacing).all(1)
    for middle, radius in holes:
        away &= np.hypot(*(inner - middle).T) > radius + 0.55 * spacing
    points = np.concatenate([np.array(edge), np.array(circles), inner[away]])
    triangles = Delaunay(points).simplices
    middles = points[triangles].mean(1)
    kept = np.ones(len(triangles), bool)
    for middle, radius in holes:
        kept &= np.hypot(*(middles - middle).T) > radius * np.cos(np.pi / 6) * 0.98
    sides = points[triangles][:, [1, 2]] - points[triangles][:, [0]]
    kept &= np.abs(sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0]) > 1e-3 * spacing**2
    used, triangles = np.unique(triangles[kept], return_inverse=True)
    return points[used], triangles.reshape(-1, 3)


def solved(draw, nodes):
    points, triangles = triangulated(draw, nodes)
    mesh = skfem.MeshTri(points.T.copy(), triangles.T.copy())
    basis = skfem.Basis(mesh, skfem.ElementTriP1())
    log_diffusivity = np.zeros(len(points))
    for _ in range(draw.integers(2, 5)):
        middle, radius = draw.uniform(0.1, 0.9, 2), draw.uniform(0.15, 0.35)
        share = 1 / (1 + np.exp((np.hypot(*(points - middle).T) - radius) / 0.03))
        log_diffusivity += (draw.uniform(-np.log(20), np.log(20)) - log_diffusivity) * share
    source = np.zeros(len(points))
    for _ in range(draw.integers(1, 4)):
        middle, width = draw.uniform(0.1, 0.9, 2), draw.uniform(0.08, 0.2)
        source += draw.uniform(5, 20) * np.exp(-((points - middle) ** 2).sum(1) / (2 * width**2))
    edge = ((points < 1e-9) | (points > 1 - 1e-9)).any(1)
    a, b, c = draw.uniform(-0.3, 0.3, 3)
    edge_temperature = np.where(edge, a + points @ (b, c), 0)

    @skfem.BilinearForm
    def conduction(u, v, w):
        return w.k * dot(grad(u), grad(v))

    @skfem.LinearForm
    def heat(v, w):
        return w.q * v

    def temperature(diffusivity, heated, at_edge):
        matrix = conduction.assemble(basis, k=basis.interpolate(diffusivity))
        load = heat.assemble(basis, q=basis.interpolate(heated))
        return skfem.solve(*skfem.condense(matrix, load, x=at_edge.copy(), D=np.flatnonzero(edge)))

    true = temperature(np.exp(log_diffusivity), source, edge_temperature)
    one, none = np.ones(len(points)), np.zeros(len(points))
    # With one diffusivity the edge alone gives a part that does not depend on it, and the source one that is divided by it.
    of_edge, of_source = temperature(one, none, edge_temperature), temperature(one, source, none)
    constant = of_edge + max(0.0, of_source @ (true - of_edge) / (of_source @ of_source)) * of_source
    data = {"log_diffusivity": log_diffusivity, "source": source / 4, "edge": edge.astype(float),
            "edge_temperature": edge_temperature / 0.12, "temperature": true, "constant": constant}  # fmt: skip
    return points, triangles, data


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=150, help="about, without the holes")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    begin = last = time.time()
    for number in range(options.count):
        points, triangles, data = solved(np.random.default_rng([options.seed, number]), options.nodes)
        mesh = meshio.Mesh(np.column_stack([points, np.zeros(len(points))]), [("triangle", triangles)], point_data=data)
        meshio.write(options.folder / f"{number:05}.vtk", mesh, file_format="vtk42", binary=False)
        if time.time() - last > 5:
            last = time.time()
            left = (last - begin) / (number + 1) * (options.count - number - 1)
            print(f"{number + 1} of {options.count} meshes, {left:.0f} s left", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
