// Maps the element type of a tensor to a C++ type.
#pragma once

#include <c10/core/ScalarType.h>

#include "terrace/base/error.h"
#include "terrace/ops/computing_type.h"

namespace terrace::ops {

// Calls a generic lambda with a value of the type.
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

template <typename Body>
void for_types(at::ScalarType first, at::ScalarType second, const Body& body) {
  for_type(first, [&](auto a) { for_type(second, [&](auto b) { body(a, b); }); });
}

}  // namespace terrace::ops
