// What an optimizer works on: the part of a flat buffer of parameters that this rank updates. On one rank it is the
// whole buffer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/nn/module.h"

namespace terrace::optim {

// Elements [begin, end) of a flattened parameter, which stand at `at` in the shard.
struct ShardPiece {
  nn::Parameter* parameter;
  int64_t begin = 0, end = 0;
  int64_t at = 0;

  int64_t size() const { return end - begin; }
};

struct Shard {
  at::Tensor gradient;  // [n] in the gradient type
  at::Tensor value;     // [n] in the type the model computes in
  // The optimizer keeps fp32 values of its own even where `value` has them: what is published from it is rounded.
  bool keeps_master = false;
  // The elements that this rank alone answers for among the ranks that hold this shard, a whole number of norm pieces.
  int64_t own_begin = 0, own_end = 0;
  std::vector<ShardPiece> pieces;  // ascending; what lies between them is padding

  // The pieces cut to [own_begin, own_end).
  std::vector<ShardPiece> own_pieces() const;
};

// One shard a parameter, the whole of it: for a model whose parameters stand alone. Each has its gradient.
std::vector<Shard> whole_parameters(const std::vector<nn::Parameter*>& parameters);

}  // namespace terrace::optim
