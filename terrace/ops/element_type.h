// Maps the element type of a tensor to a C++ type, and to the type in which kernels compute.
#pragma once

#include <c10/core/ScalarType.h>

#include <type_traits>

#include "terrace/base/error.h"

namespace terrace::ops {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The wider of two computing types.
template <typename G, typename T>
using Wider = std::conditional_t<std::is_same_v<Wide<G>, double>, double, Wide<T>>;

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
