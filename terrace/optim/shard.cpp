// Makes the shards of whole parameters and restricts pieces to owned elements.
#include "terrace/optim/shard.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::optim {

std::vector<ShardPiece> Shard::own_pieces() const {
  std::vector<ShardPiece> own;
  for (const ShardPiece& piece : pieces) {
    const int64_t from = std::max(piece.at, own_begin), to = std::min(piece.at + piece.size(), own_end);
    if (from >= to) continue;
    own.push_back({piece.parameter, piece.begin + from - piece.at, piece.begin + to - piece.at, from});
  }
  return own;
}

std::vector<Shard> whole_parameters(const std::vector<nn::Parameter*>& parameters) {
  std::vector<Shard> shards;
  for (nn::Parameter* parameter : parameters) {
    TERRACE_CHECK(parameter->value.is_contiguous(), "{} is not contiguous", parameter->name);
    const int64_t size = parameter->value.numel();
    shards.push_back({.gradient = parameter->gradient.defined() ? parameter->gradient.view({-1}) : at::Tensor(),
                      .value = parameter->value.detach().view({-1}),
                      .own_begin = 0,
                      .own_end = size,
                      .pieces = {{parameter, 0, size, 0}}});
  }
  return shards;
}

}  // namespace terrace::optim
