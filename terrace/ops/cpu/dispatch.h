// Calls a generic lambda with a value of the C++ type of a tensor's elements.
#pragma once

#include <c10/core/ScalarType.h>

#include "terrace/base/error.h"

namespace terrace::ops::cpu {

template <typename Body>
void for_type(at::ScalarType type, const Body& body) {
  switch (type) {
    case at::kFloat:
      return body(float{});
    case at::kBFloat16:
      return body(c10::BFloat16{});
    case at::kHalf:
      return body(c10::Half{});
    case at::kDouble:
      return body(double{});
    default:
      TERRACE_CHECK(false, "no kernel for tensors of {}", c10::toString(type));
  }
}

}  // namespace terrace::ops::cpu
