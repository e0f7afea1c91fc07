// Sizes of the numbers that operations keep beside tensors in the type of the model.
#pragma once

#include <cstdint>

namespace terrace::layers {

constexpr int64_t wide_bytes = 4;   // of fp32: statistics and sums of norms, attention and losses
constexpr int64_t index_bytes = 8;  // of tokens and positions

constexpr double product_of(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

}  // namespace terrace::layers
