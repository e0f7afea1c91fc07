// Dropout whose mask is a function of where an element is in the run, so that a resumed, recomputed or re-laid-out run
// draws the same. The mask is drawn again in backward and never stored.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "terrace/ops/kernels.h"

namespace terrace::ops {

// Where in the run a mask is drawn.
struct DropoutSite {
  double rate = 0.0;  // realised as the nearest multiple of 1/65536
  uint64_t seed = 0;
  int64_t step = 0;
  at::Tensor samples{};  // [B] int64: the number of each sample in the run
  // Where x begins among all positions and heads, on a rank that has only a part of them.
  int64_t first_position = 0, first_head = 0;
};

// residual + dropout(x), for x and residual [B, T, D]; residual may be undefined. `name` tells the sites of a model
// apart. At rate 0 it is a plain sum.
at::Tensor dropout_add(const at::Tensor& residual, const at::Tensor& x, const DropoutSite& site, std::string_view name);

// dropout(x) for attention probabilities [B, H, T, S]; the head is a coordinate of its own.
at::Tensor dropout(const at::Tensor& x, const DropoutSite& site, std::string_view name);

// The draw of a site.
DropoutDraw draw_of(const DropoutSite& site, std::string_view name);

}  // namespace terrace::ops
