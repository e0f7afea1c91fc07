// The part of a flat buffer of parameters that this rank updates; on one rank the whole buffer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "terrace/nn/module.h"

namespace terrace::optim {

// Elements [begin, end) of a flattened parameter, which begin at `at` in the shard.
struct ShardPiece {
  nn::Parameter* parameter;
  int64_t begin = 0, end = 0;
  int64_t at = 0;

  int64_t size() const { return end - begin; }
};

struct Shard {
  at::Tensor gradient;  // [n] in the gradient type
  at::Tensor value;     // [n] in the type of its parameters
  // Whether the optimizer keeps separate fp32 masters although `value` is fp32, since publishing rounds `value`.
  bool keeps_master = false;
  // The elements that this rank owns among the ranks that hold this shard, a whole number of norm pieces. An owned
  // element is counted in the norm and saved by its owner only.
  int64_t own_begin = 0, own_end = 0;
  std::vector<ShardPiece> pieces;  // ascending; the elements between them are padding
  int64_t segment = -1;            // of the model, if the shard is of a segment
  bool of_experts = false;         // whether its parameters are those of experts that ranks divide

  // The pieces, restricted to [own_begin, own_end).
  std::vector<ShardPiece> own_pieces() const;
};

// One shard for each whole parameter, for parameters without flat buffers.
std::vector<Shard> whole_parameters(const std::vector<nn::Parameter*>& parameters);

}  // namespace terrace::optim
