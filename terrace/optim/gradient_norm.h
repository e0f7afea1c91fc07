// Computes the global gradient norm from fixed pieces whose sums are added exactly, so that it does not depend on
// threads and data parallelism.
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

// Each piece of norm_piece elements of the flat buffers is squared and summed in fp64 by the rank of `everyone` that
// owns the piece; where other ranks count some of its elements, each run of the others is. These sums are added without
// a rounding error (exact_sum.h), over the pieces, the members of `everyone` and those of `model_parallel`, which hold
// the whole model together, with one gather of 176 bytes a member in each group. The marks say which copy of an element
// counts. The members of `everyone` are in the order of the elements that they own. All members of both groups call
// this function and get the same result. Of bad parameters of several ranks the first in the order of the shards is
// named.
GradientNorm gradient_norm(const std::vector<Shard>& shards, comm::Comm& everyone, comm::Comm& model_parallel);

// The factor that brings the norm of the gradients to at most `clip`; 1 where `clip` is 0 (off). Pascanu et al., "On
// the difficulty of training recurrent neural networks", ICML 2013.
double clip_multiplier(double norm, double clip);

}  // namespace terrace::optim
