// The choice between our kernels and torch's on a CPU. Both are exact to rounding, but the last bits differ, so a run
// records its choice in checkpoints and keeps it when it is resumed.
#pragma once

#include "terrace/ops/attention/attention.h"
#include "terrace/ops/products/product_choice.h"

namespace terrace::ops {

struct KernelChoice {
  ProductsByClass products = {};
  AttentionChoice attention = AttentionChoice::fastest;

  bool operator==(const KernelChoice&) const = default;
};

}  // namespace terrace::ops
