// Defines what a model of graphs reads and predicts, and the tensors of its batches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/graphs/dataset/graphs_description.h"

namespace terrace::data {

// The offset that is taken off a label before the label is learned.
enum class LabelOffset {
  none,
  mean,      // of the training part
  elements,  // of a structure: the sum over its atoms of a number for each element, fitted to the training part
};

// A property of the data that an output of the model is trained on.
struct GraphLabel {
  std::string name = {};                     // of the output
  std::string property = {};                 // of the data, at `level`
  GraphLevel level = GraphLevel::structure;  // or atom
  int64_t width = 1;                         // columns
  LabelOffset offset = LabelOffset::none;
  // The label whose scale divides this one too, as that of the forces divides energies; "": this label.
  std::string scaled_as = {};
  // Whether scale and offset of a structure's label are those of the property divided by the number of atoms.
  bool per_atom = false;
  std::string derivative_of = {};  // the label of whose derivative it is; "": of none
  // The derivative is a stress: by strain, and divided by the volume of the cell (volume_of()). A property that is a
  // virial by its name (quantities.h) is divided by minus the volume. Structures without a volume have no such label.
  bool is_stress = false;
};

// The predicted time of a graph in any unit, by which ranks share the graphs of a step.
struct GraphCost {
  double graph = 0, atom = 10, edge = 1;
};

struct GraphsRequest {
  double radius = 5;                                                // angstrom, of the edges
  int64_t max_neighbours = 0;                                       // as in NeighbourOptions
  bool given_edges = false;                                         // the edges of the files instead
  std::vector<std::string> atom_features = {}, edge_features = {};  // properties of the data
  std::string charge = {};                                          // a property of structures; "": none
  std::vector<GraphLabel> labels = {};
  // The things that one loss of the model counts: the graphs or the atoms of the batch, times a number.
  struct Count {
    GraphLevel level = GraphLevel::structure;
    double times = 1;
    std::string label = {};  // only those that have this label; "": all
  };
  std::vector<Count> counts = {};
  GraphCost cost = {};
  // The number of times that the nodes of each graph are clustered, and the clusters again (coarse_graph.h).
  int64_t coarse_levels = 0;

  // Whether each edge has one back with the opposite vector.
  bool mutual() const { return !given_edges && max_neighbours == 0; }
};

// Tensors of B graphs with N atoms and E edges in all. Graph after graph, an atom has its number in the batch. Edges
// are sorted by (receiver, sender, shift), so those of an atom, and of a graph, lie together. Any of B, N and E may be
// 0.
//   "species" [N] int64            atomic numbers; 0: no atom
//   "graphs" [N] int64             the graph of each atom
//   "first_atom" [B + 1] int64     of each graph
//   "receivers" [E] int64          the atom to which the edge brings a message
//   "senders" [E] int64            and the one from which it comes
//   "first_edge" [N + 1] int64     of each receiver
//   "sender_order" [E] int64       the edges sorted by (sender, number of the edge)
//   "first_sent" [N + 1] int64     the first place in sender_order of each sender
//   "vectors" [E, 3] fp64          position[sender] - position[receiver] + shift cell, computed in double precision
//   "pairs" [E] int64              only where edges are mutual: the pair of each edge and the one back,
//   "first_edges" [E / 2] int64    and the first edge of each pair, ascending
//   "volumes" [B] fp64             of the cells as they are given, whatever is periodic; 1 of those without a volume
//   "atom_features" [N, W] fp32, "edge_features" [E, W] fp32, "charges" [B] fp32
//   "branches" [B] int64           the number of the graph's dataset in data.train
//   "degree_means" [2] fp64        over the atoms of the training part: of log(degree + 1), and of the degree
// for each coarse level L from 1 (coarse_graph.h), whose N nodes and E edges are those of the clusters,
//   "coarse.L.NAME"                of "graphs", "first_atom", "receivers", "senders", "first_edge", "sender_order",
//                                  "first_sent", "vectors", "pairs", "first_edges" and "edge_features" what NAME is of
//                                  the atoms; MicroBatch::sizes has N as "coarse.L.atoms" and E as "coarse.L.edges"
//   "coarse.L.clusters" [M] int64      the node of the level of each of the M nodes of the level below, 0 being atoms
//   "coarse.L.members" [M] int64       the nodes of the level below sorted by (cluster, number of the node)
//   "coarse.L.first_member" [N + 1] int64  the first place in members of each cluster
// and for each label, by its name:
//   "targets.NAME" [B or N, width] fp64    (property - offset) / scale, of the whole property also where per_atom;
//                                          0 where it is missing
//   "offsets.NAME" [B or N, width] fp64, "scales.NAME" [1] fp64: property = target * scale + offset
//   "labelled.NAME" [B or N, width] fp32   1 where there is a label, 0 where it is missing: of graphs without one,
//                                          of values that are NaN, and of a stress without a volume
// Scales and offsets are those of the training part, or the attached ones of a checkpoint. A scale is the root of the
// mean square of (property - offset), where per_atom of that over the number of atoms; 1 where that is 0.

// Returns the name of a tensor or a size at a level; level 0 is that of the atoms.
inline std::string level_tensor(int64_t level, std::string_view name) {
  return level == 0 ? std::string(name) : "coarse." + std::to_string(level) + "." + std::string(name);
}

}  // namespace terrace::data
