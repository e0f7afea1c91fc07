// Counts what one unit of a graph network has and does: parameters, products, passes over memory, and what is kept for
// backward.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/models/gnn/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gnn {

// How many nodes and edges a coarse level is taken to have, of those of the level before it, where options.sizes do not
// say. Sizes are named as data::level_tensor() names them.
struct CoarseShares {
  double nodes = 0, edges = 0;
};
// Those of molecules with the edges of a radius of 4 to 6 angstrom, or of their bonds and of meshes as given edges.
CoarseShares coarse_shares(const ModelConfig& config);

// How many rows a tensor has in a micro-batch, at the level of the counter.
// components: three for each atom; factors: edges, or pairs of them where the model computes pairs
enum class Rows { graphs, atoms, edges, factors, components };

// What the input of a linear layer depends on, which decides about its gradient.
enum class Input {
  data,     // on nothing that has a gradient
  vectors,  // on the vectors of edges, which have one where forces or stress are computed
  states,   // on parameters, and behind the first layer on the vectors
  both,     // on both
};

class UnitCounter {
 public:
  // Where forces or stress are computed, the derivative of the energy is part of the forward, and the backward
  // differentiates both. `first`: of units whose states do not depend on the vectors.
  UnitCounter(schedule::UnitRow& row, const schedule::UnitTableOptions& options, const ModelConfig& config, bool first);

  // For what comes next: whether the energy that is differentiated depends on it.
  void set_differentiated(bool differentiated) { differentiated_ = differentiated; }
  // For what comes next: the level of the graphs on which it works; 0 at first.
  void set_level(int64_t level) { level_ = level; }

  void parameter(const std::string& name, std::vector<int64_t> shape);
  void buffer(const std::string& name, std::vector<int64_t> shape);
  // Parameters NAME.weight and NAME.bias, and the products. `is_energy`: what it gives is summed to the energy, whose
  // gradient is 1.
  void linear(const std::string& name, Rows rows, int64_t inputs, int64_t outputs, bool bias = true,
              Input input = Input::both, bool is_energy = false);
  // The same of Linear::scaled(): a product with a column more, in the place of the bias.
  void scaled_linear(const std::string& name, Rows rows, int64_t inputs, int64_t outputs, Input input);
  // An operation for each element that reads `read` and writes `written` tensors [rows, columns], whose backward reads
  // the `kept` ones.
  void elements(std::string_view name, Rows rows, int64_t columns, int64_t read, int64_t written, int64_t kept);
  // Rows of atoms for each edge or of graphs for each atom, [rows, columns], or sums of these back to them.
  void gather(Rows rows, int64_t columns);
  void segment_sum(Rows rows, int64_t columns);
  // Sums over the edges of each atom of products of what atoms have, [atoms, columns], and edges, [factors, factors]
  // (ops/messages.h).
  void message_sum(int64_t columns, int64_t factors);
  // What is kept for the backward beside what the functions above keep.
  void keep_once(Rows rows, int64_t columns);
  void keep(Rows rows, int64_t columns);
  // Tensors that pass to the next unit.
  void output(Rows rows, int64_t columns, int64_t element_bytes = 4);

 private:
  void product(Rows rows, int64_t inputs, int64_t outputs, bool bias, Input input, bool is_energy);
  int64_t size(const char* name, double coarse_share) const;
  int64_t count(Rows rows) const;
  void pass(std::string_view name, double bytes, int64_t kernels = 1);

  schedule::UnitRow& row_;
  const schedule::UnitTableOptions& options_;
  bool differentiated_, pairs_, first_;
  CoarseShares shares_;
  int64_t level_ = 0;
};

}  // namespace terrace::models::gnn
