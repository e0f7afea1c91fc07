// Sums terms that lie one after another in GPU memory.
#pragma once

#include <cstdint>

#include "gpu_runtime.h"
#include "terrace/comm/call.h"

namespace terrace::comm {

// to[i] = terms[0][i] + terms[1][i] + .., added in this order, with `count` elements each, on the stream. 16-bit types
// are added in fp32 and rounded once; integers wrap around. `to` does not overlap the terms.
void sum_on_gpu(Type type, const void* terms, int64_t num_terms, int64_t count, void* to, cudaStream_t stream);

}  // namespace terrace::comm
