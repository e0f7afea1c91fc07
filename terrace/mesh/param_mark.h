// What a parameter is in the whole model, as plain data: checkpoints, gradient reduction, clipping and export read only
// this, never the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace {

struct ParamMark {
  enum class Kind { unmarked, replicated, sharded };

  Kind kind = Kind::unmarked;
  std::vector<int64_t> global_shape;  // of the whole parameter, padding included
  // sharded: this rank holds the slice of `dim` that starts at `offset`, cut over the mesh axis `axis`. At axis size 1
  // the slice is everything and offset is 0.
  int64_t dim = 0;
  int64_t offset = 0;
  std::string axis;

  bool operator==(const ParamMark&) const = default;
};

}  // namespace terrace
