// Counts what one unit of a graph network has and does: parameters, products, passes over memory, and what is kept for
// backward.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/schedule/unit_table.h"

namespace terrace::models::gnn {

// How many rows a tensor has in a micro-batch.
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
  // With `differentiated`, forces or stress are computed: the derivative of the energy is part of the forward, and the
  // backward differentiates both. `pairs`: an edge and the one back have the same factors. `first`: of units whose
  // states do not depend on the vectors.
  UnitCounter(schedule::UnitRow& row, const schedule::UnitTableOptions& options, bool differentiated, bool pairs,
              bool first);

  // For what comes next: whether the energy that is differentiated depends on it.
  void set_differentiated(bool differentiated) { differentiated_ = differentiated; }

  void parameter(const std::string& name, std::vector<int64_t> shape);
  void buffer(const std::string& name, std::vector<int64_t> shape);
  // Parameters NAME.weight and NAME.bias, and the products. `is_energy`: what it gives is summed to the energy, whose
  // gradient is 1.
  void linear(const std::string& name, Rows rows, int64_t inputs, int64_t outputs, bool bias = true,
              Input input = Input::both, bool is_energy = false);
  // An operation for each element that reads `read` and writes `written` tensors [rows, columns], whose backward reads
  // the `kept` ones.
  void elements(std::string_view name, Rows rows, int64_t columns, int64_t read, int64_t written, int64_t kept);
  // Rows of atoms for each edge or of graphs for each atom, [rows, columns], or sums of these back to them.
  void gather(Rows rows, int64_t columns);
  void segment_sum(Rows rows, int64_t columns);
  // Sums over the edges of each atom of products of factors of edges and of atoms, [rows, columns] (ops/messages.h).
  void message_sum(int64_t columns);
  // Tensors that pass to the next unit.
  void output(Rows rows, int64_t columns, int64_t element_bytes = 4);

 private:
  int64_t count(Rows rows) const;
  void pass(std::string_view name, double bytes, int64_t kernels = 1);
  void keep(Rows rows, int64_t columns);

  schedule::UnitRow& row_;
  const schedule::UnitTableOptions& options_;
  bool differentiated_, pairs_, first_;
};

}  // namespace terrace::models::gnn
