// The global gradient norm, summed in fixed pieces so that it does not depend on threads or on where a layout cuts.
#pragma once

#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/optim/shard.h"

namespace terrace::optim {

struct GradientNorm {
  double norm = 0;        // of all gradients together; NaN or infinite where one is
  std::string first_bad;  // the first parameter, in order, whose gradient is not finite; "" where all are
};

// Pieces of norm_piece elements of the flat buffers are squared and summed each, every one by the rank of `everyone`
// that answers for it; then all of them have all sums, 8 bytes for each piece, and add them in the order of the
// buffers. Members are in the order of the elements that they answer for. `parts` are the ranks that have the other
// parts of the model: their totals are added in order, with each element of the model once, as the marks say. Called by
// all members of both groups, and the same on all of them.
GradientNorm gradient_norm(const std::vector<Shard>& shards, comm::Comm& everyone, comm::Comm& parts);

// What gradients are multiplied by so that their norm is at most `clip`; 1 where clip is 0 (off). Pascanu et al., "On
// the difficulty of training recurrent neural networks", ICML 2013.
double clip_multiplier(double norm, double clip);

}  // namespace terrace::optim
