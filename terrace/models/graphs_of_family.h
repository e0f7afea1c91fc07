// The part of a family whose models predict properties of graphs, such as energies of molecules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/family.h"
#include "terrace/data/graphs/graphs_request.h"

namespace terrace::models {

// One of the outputs, with the label that it is trained on.
struct GraphOutput {
  std::string name = {}, label = {};
  data::GraphLevel level = data::GraphLevel::structure;  // or atom
  int64_t columns = 1;
  bool per_atom = false;      // of a structure: errors are those of the value divided by its atoms
  bool has_variance = false;  // Model::outputs() has NAME_std too
  // The output of whose derivative by positions (of atoms: the force) or strain (of a structure: the stress) it is; "":
  // it is none.
  std::string derivative_of = {};
};

// All functions are called with configurations of the family. [data] of its configurations is a data::GraphsConfig, and
// Model::outputs() gives for each output NAME [structures or atoms, columns] in double precision, in the units of the
// data, for batches of the request.
class GraphsOfFamily {
 public:
  virtual ~GraphsOfFamily() = default;

  virtual data::GraphsRequest request(const config::Config& config) const = 0;
  virtual std::vector<GraphOutput> outputs(const config::Config& config) const = 0;
};

// Throws UserError, with what can be done with models of the family instead, if they predict no properties of graphs.
const GraphsOfFamily& graphs_of_family(const config::Config& config);

}  // namespace terrace::models
