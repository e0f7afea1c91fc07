#!/usr/bin/env python3
# Times neighbour lists of 16,000 atoms at 5 angstrom beside vesin's, in turns, in processor seconds of one thread.
# Usage: .deps/python/bin/python bench/data/graph_neighbours.py build/release/bench/bench_data_graph_neighbours
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import vesin

ATOMS, CUTOFF, TURNS = 16000, 5.0, 21


def main():
    random = numpy.random.default_rng(1)
    side = (ATOMS / 0.1) ** (1 / 3)  # 0.1 atoms in a cubic angstrom
    cell = side * numpy.eye(3)
    positions = random.uniform(0, side, (ATOMS, 3))
    with tempfile.NamedTemporaryFile() as file:
        file.write(cell.tobytes() + positions.tobytes())
        file.flush()
        ours = subprocess.Popen([sys.argv[1], file.name, str(CUTOFF)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        search = vesin.NeighborList(cutoff=CUTOFF, full_list=True, n_threads=1)
        of_ours, of_vesin = [], []
        for turn in range(TURNS + 1):
            ours.stdin.write("\n")
            ours.stdin.flush()
            edges, seconds = ours.stdout.readline().split()
            began = time.process_time()
            i, j, shifts = search.compute(positions, cell, True, "ijS", copy=False)
            peer = time.process_time() - began
            assert len(i) == int(edges), (len(i), edges)
            if turn > 0:  # the first one of both warms up
                of_ours.append(float(seconds))
                of_vesin.append(peer)
        ours.stdin.close()
        ours.wait()
    ratios = [a / b for a, b in zip(of_ours, of_vesin)]
    print(f"{ATOMS} atoms, {len(i)} edges, {TURNS} turns: terrace {statistics.median(of_ours):.4f} s, "
          f"vesin {statistics.median(of_vesin):.4f} s, median ratio {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f})")


main()
