// Computes the global gradient norm in fixed pieces, so that it does not depend on threads or data parallelism.
#pragma once

#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/optim/shard.h"

namespace terrace::optim {

struct GradientNorm {
  double norm = 0;        // of all gradients together; NaN or infinite if an element is
  std::string first_bad;  // the first parameter, in order, whose gradient is not finite; "" if all are finite
};

// Each piece of norm_piece elements of the flat buffers is squared and summed by the rank of `everyone` that owns the
// piece. Then all members gather all sums, 8 bytes for each piece, and add them in the order of the buffers. The
// members of `everyone` are in the order of the elements that they own. The totals of the members of `model_parallel`,
// which hold the whole model together, are added in order; the marks say which copy of an element counts. All members
// of both groups call this function and get the same result.
GradientNorm gradient_norm(const std::vector<Shard>& shards, comm::Comm& everyone, comm::Comm& model_parallel);

// The factor that brings the norm of the gradients to at most `clip`; 1 where `clip` is 0 (off). Pascanu et al., "On
// the difficulty of training recurrent neural networks", ICML 2013.
double clip_multiplier(double norm, double clip);

}  // namespace terrace::optim
