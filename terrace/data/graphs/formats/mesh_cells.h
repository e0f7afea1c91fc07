// The edges of finite elements.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

// Cells whose nodes are their corners, in the order that Gmsh and VTK share; pixel and voxel have VTK's rows.
enum class CellShape {
  points,   // any number, without edges
  line,     // any number of nodes, each with an edge to the next
  strip,    // of triangles: each node with edges to the next two
  polygon,  // any number, also triangles and quadrilaterals: each with an edge to the next, the last to the first
  pixel,
  tetrahedron,
  hexahedron,
  voxel,
  prism,
  pyramid
};

// Returns the number of nodes of a cell with these sides; 0 where it may be any.
int64_t nodes_of_cell(CellShape shape);

// Collects the edges of cells.
class CellEdges {
 public:
  // Adds a cell; `nodes` has nodes_of_cell() nodes, if that is not 0.
  void add(CellShape shape, std::span<const int32_t> nodes);
  // Returns each edge once in both directions, sorted by receiver and sender; an edge from a node to itself is left
  // out.
  GivenEdges edges();

 private:
  void add_edge(int32_t a, int32_t b);

  std::vector<std::pair<int32_t, int32_t>> pairs_;  // the smaller node first
};

}  // namespace terrace::data
