// The fastest of many products of one shape.
#include "terrace/measure/matmul_rate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "terrace/ops/products.h"

namespace terrace::measure {
namespace {

std::string type_name(at::ScalarType type) {
  return type == at::kFloat ? "fp32" : type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : at::toString(type);
}

}  // namespace

MatmulRate matmul_rate(at::Device device, at::ScalarType type, double seconds) {
  const at::NoGradGuard no_grad;
  using Clock = std::chrono::steady_clock;
  // A GPU needs a larger product to fill it.
  const int64_t rows = device.is_cuda() ? 8192 : 2048, inner = device.is_cuda() ? 4096 : 768, columns = 4 * inner;
  const at::TensorOptions options = at::TensorOptions().device(device).dtype(type);
  const at::Tensor x = at::ones({rows, inner}, options).mul_(0.01);
  const at::Tensor w = at::ones({columns, inner}, options).mul_(0.01);
  const double flops = 2.0 * rows * inner * columns;
  const auto rate = [&](ops::Products products) {
    const auto start = Clock::now();
    const at::Tensor y = ops::times_transposed(x, w, {}, products);
    if (device.is_cuda()) y.view({-1})[0].item();
    return flops / std::chrono::duration<double>(Clock::now() - start).count();
  };
  double best_torch = 0, best_own = 0;
  const auto began = Clock::now();
  do {
    best_torch = std::max(best_torch, rate(ops::Products::torch));
    if (ops::own_products(x, ops::Products::own)) best_own = std::max(best_own, rate(ops::Products::own));
  } while (std::chrono::duration<double>(Clock::now() - began).count() < seconds);
  // Well apart, so that the choice is the same in every run on a machine however busy it is.
  constexpr double clearly = 1.25;
  const ops::Products faster = best_torch > clearly * best_own ? ops::Products::torch : ops::Products::own;
  return {
      std::max(best_torch, best_own), faster,
      fmt::format("the {} product [{}, {}] x [{}, {}] measured here", type_name(type), rows, inner, inner, columns)};
}

}  // namespace terrace::measure
