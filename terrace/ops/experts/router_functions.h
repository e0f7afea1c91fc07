// The functions of a router's scores z [N, E] in fp32 or double: loops on a CPU, and operations of torch elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/experts/router.h"

namespace terrace::ops {

// A choice that was made, with the number of choices by which each choice of a sequence counts in the balance loss.
struct RoutedScores {
  at::Tensor z = {};                // [N, E]
  at::Tensor experts = {};          // [N, k] int32
  at::Tensor sequence_counts = {};  // [sequences, E] int64
  double balance_factor = 0;        // E / (k T^2)
};

struct RoutedWeights {
  at::Tensor weights;       // [N, k] of z's type
  at::Tensor balance_loss;  // scalars in double
  at::Tensor z_loss;
};

// The gradients of what follows from the scores.
struct RoutedGradients {
  at::Tensor weights;  // [N, k] of z's type
  double balance_loss = 0, z_loss = 0;
};

struct RouterFunctions {
  // The experts [N, k] int32; `bias` [E] of z's type may be undefined.
  at::Tensor (*choose)(const at::Tensor& z, const at::Tensor& bias, const RouterSettings& settings);
  RoutedWeights (*weigh)(const RoutedScores& routed, const RouterSettings& settings);
  // d loss / d z [N, E].
  at::Tensor (*backward)(const RoutedScores& routed, const RouterSettings& settings, const RoutedGradients& gradients);
};

namespace cpu {
const RouterFunctions& router_functions();
}
const RouterFunctions& router_functions_of_torch();

inline const RouterFunctions& router_functions(const at::Device& device) {
  return device.is_cpu() ? cpu::router_functions() : router_functions_of_torch();
}

// Added to a sum of sigmoids before a division by it.
inline constexpr double least_sum_of_sigmoids = 1e-20;

}  // namespace terrace::ops
