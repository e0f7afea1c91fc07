// The type in which kernels compute with elements of a type.
#pragma once

#include <type_traits>

namespace terrace::ops {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// The wider of two computing types.
template <typename G, typename T>
using Wider = std::conditional_t<std::is_same_v<Wide<G>, double>, double, Wide<T>>;

}  // namespace terrace::ops
