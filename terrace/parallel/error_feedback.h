// Error feedback of one quantized reduction of one segment: what rounding takes from a gradient is kept and added to
// the next one (Seide et al., "1-bit stochastic gradient descent", Interspeech 2014; Karimireddy et al., arXiv
// 1901.09847).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/ops/block_code.h"

namespace terrace::parallel {

// Encodes the values g of a call with the kept errors e, in fp32, where Q rounds to nearest:
//
//     h = g + e    payload = Q(h)    e' = h - decoded(Q(h))
//
// The sum of the payloads of many calls then differs from the sum of the values by the last e' alone. The errors are
// kept as int8 blocks of 256 values, whose own rounding is not fed back.
class ErrorFeedback {
 public:
  // Keeps errors for calls with so many values in `code` on the device; the errors begin at zero. The values of each
  // part are a multiple of 256. `piece_values`, a multiple of 256, is how many values are coded at once, which does not
  // change the result; 0: on a CPU as many as fit a cache, elsewhere a whole part.
  ErrorFeedback(ops::BlockCode code, int64_t values, at::Device device, int64_t piece_values = 0);

  // The payloads (ops::BlockLayout) of `parts` equal parts of the values [n], which may have any float type. An error
  // that is not finite, as in a block with a NaN or an infinity, becomes zero.
  at::Tensor encode(const at::Tensor& values, int64_t parts);

  // Sets all errors to zero.
  void forget();
  // Multiplies all errors by a power of two. The scales of blocks stay normal numbers, and small enough that no error
  // becomes infinite.
  void scale(double factor);

  // The errors: codes of all values, followed by the fp32 scales of their blocks. Filling it restores a state.
  const at::Tensor& kept() const { return kept_; }

 private:
  int64_t piece_of(int64_t part_values) const;

  ops::BlockCode code_;
  int64_t values_, piece_values_;
  at::Tensor kept_, codes_, scales_;  // uint8; the codes and the scales are views of kept_
};

}  // namespace terrace::parallel
