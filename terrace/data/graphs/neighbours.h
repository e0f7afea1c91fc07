// Lists the pairs of atoms that are nearer than a cutoff, with all images of periodic cells, in time linear in the
// atoms.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "terrace/data/graphs/structures/cell.h"

namespace terrace::data {

struct NeighbourOptions {
  double cutoff = 5;           // angstrom; greater than 0
  int64_t max_neighbours = 0;  // of each atom; 0: no cap
};

// All (i, j, S) with |r| < cutoff, where r = position[j] - position[i] + S cell is computed in double precision in this
// order. The sets of ASE, matscipy and vesin are defined in the same way. S is 0 along directions without periodicity.
// A pair occurs once for each S; an atom neighbours its own images, but not itself (i = j with S = 0). With (i, j, S)
// the list has (j, i, -S), unless a cap leaves one of them out.
//
// Edges are sorted by (i, j, S). In messages i is the receiver: its edges are first_edge[i] .. first_edge[i + 1] - 1.
//
// With max_neighbours each atom i keeps its nearest ones. Distances that round to the same multiple of 1e-6 angstrom
// are ties, of which the smaller (j, S) stay: so rounding does not choose between neighbours that symmetry makes equal.
// A cap makes energies jump where a neighbour enters or leaves the list, and the list lose its symmetry.
struct NeighbourList {
  std::vector<int32_t> receivers = {};              // [edges], i
  std::vector<int32_t> senders = {};                // [edges], j
  std::vector<std::array<int32_t, 3>> shifts = {};  // [edges], S
  std::vector<int64_t> first_edge = {};             // [atoms + 1]
  bool operator==(const NeighbourList&) const = default;

  int64_t edges() const { return static_cast<int64_t>(receivers.size()); }
};

// `positions` is [atoms, 3] in angstrom; atoms may lie outside of the cell. Throws UserError where the cutoff is not
// positive, a position is not finite or more than a billion cells away, the cell has a problem_of(), or the cutoff
// reaches over more than a thousand images of the cell in one direction. Atoms at one place are neighbours at distance
// 0. Memory beside the result: about 100 bytes an atom.
NeighbourList find_neighbours(std::span<const double> positions, const Cell& cell, const NeighbourOptions& options);

// The edges (i, j, S) and (j, i, -S) of a list without a cap are one pair. Pairs are numbered by their first edges.
struct MutualPairs {
  std::vector<int64_t> pairs = {};        // [edges], the pair of each edge
  std::vector<int64_t> first_edges = {};  // [edges / 2], ascending
};
MutualPairs mutual_pairs(const NeighbourList& list);

}  // namespace terrace::data
