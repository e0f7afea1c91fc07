// Dropout whose mask is a function of an element's place in the run, so that a resumed run, recompute and every layout
// draw the same mask. The mask is drawn again in backward and never stored.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "terrace/ops/kernels.h"

namespace terrace::ops {

// The place in the run for which a mask is drawn.
struct DropoutSite {
  double rate = 0.0;  // rounded to the nearest multiple of 1/65536
  uint64_t seed = 0;
  int64_t step = 0;
  at::Tensor samples{};  // [B] int64: the number of each sample in the run
  // The positions of x's rows and its first head among all, on a rank that has only some of them.
  RowPlaces positions = {};
  int64_t first_head = 0;
};

// residual + dropout(x), for x and residual [B, T, D]; residual may be undefined. `name` distinguishes the sites of a
// model. At rate 0 the result is the plain sum.
at::Tensor dropout_add(const at::Tensor& residual, const at::Tensor& x, const DropoutSite& site, std::string_view name);

// dropout(x) for attention probabilities [B, H, T, S]; the head is a coordinate of its own.
at::Tensor dropout(const at::Tensor& x, const DropoutSite& site, std::string_view name);

// dropout(x) in place of x [B, T, H D], contiguous, in which D columns belong to each of H heads: the mask of [B, H, T,
// D].
void drop_in_heads(const at::Tensor& x, int64_t heads, const DropoutDraw& draw);

// The draw for a site.
DropoutDraw draw_of(const DropoutSite& site, std::string_view name);

}  // namespace terrace::ops
