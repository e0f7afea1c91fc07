// The fastest of many products of one shape.
#include "terrace/measure/matmul_rate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

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
  double best = 0;
  const auto began = Clock::now();
  do {
    const auto start = Clock::now();
    const at::Tensor y = at::linear(x, w);
    if (device.is_cuda()) y.view({-1})[0].item();
    best = std::max(best, flops / std::chrono::duration<double>(Clock::now() - start).count());
  } while (std::chrono::duration<double>(Clock::now() - began).count() < seconds);
  return {best, fmt::format("the {} product [{}, {}] x [{}, {}] measured here", type_name(type), rows, inner, inner,
                            columns)};
}

}  // namespace terrace::measure
