// Describes what a new model takes from the checkpoint of another one, as a family decides it: a model for another
// grid, or with other variables.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/files/attached_file.h"
#include "terrace/config/config.h"

namespace terrace::models {

using Shapes = std::map<std::string, std::vector<int64_t>>;  // of whole tensors, by name

// A tensor that is computed from stored ones.
struct ComputedTensor {
  std::vector<std::string> from;  // stored tensors
  // Takes these whole tensors in this order, in fp32 on the CPU, and returns the whole new one. Every rank that holds a
  // part of it calls the function, so its bits may depend on nothing else. It may not change what it is given.
  std::function<at::Tensor(const std::vector<at::Tensor>&)> compute;
};

struct WeightMapRequest {
  const Shapes& stored;  // the parameters and buffers in the checkpoint
  const Shapes& wanted;  // the parameters and buffers of the new model
  // The configuration of the checkpoint's run. Throws UserError if it is not of this family.
  const std::function<config::Config()>& stored_config;
  const config::Config& config;  // of the new run
  AttachedPaths attached = {};   // files that the checkpoint keeps
};

// A wanted tensor that is in neither list is taken as it is, from the stored tensor of its name and shape. A stored
// tensor that nothing is taken or computed from must be named in `dropped`, so that none is forgotten.
struct WeightMap {
  std::map<std::string, ComputedTensor> computed = {};  // by wanted name
  std::set<std::string> initial = {};                   // wanted tensors that keep their initial values
  std::set<std::string> dropped = {};                   // stored tensors that are not used
  std::vector<std::string> notes = {};                  // what a user has to know of computed tensors, each a clause
};

}  // namespace terrace::models
