// Whose kernels compute on a CPU where there is a choice. All are exact to rounding; which one computes decides the
// last bits, so a run records its choice and goes on with it.
#pragma once

#include "terrace/ops/attention.h"
#include "terrace/ops/weight.h"

namespace terrace::ops {

struct KernelChoice {
  Products products = Products::own;
  AttentionChoice attention = AttentionChoice::fastest;

  bool operator==(const KernelChoice&) const = default;
};

}  // namespace terrace::ops
