// The fastest of many products of one shape, and whose take less of a processor.
#include "terrace/measure/matmul_rate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "terrace/ops/products.h"

namespace terrace::measure {
namespace {

std::string type_name(at::ScalarType type) {
  return type == at::kFloat ? "fp32" : type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : at::toString(type);
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// By the processor's time of one thread, which a busy machine does not lengthen as it does the time on the clock: the
// choice decides the last bits of a run, and shall be the same in every run on a machine.
ops::Products faster_products(const at::Tensor& x, const at::Tensor& w) {
  if (!ops::own_products(x, ops::Products::own)) return ops::Products::torch;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto seconds = [&](ops::Products products) {
    const double start = processor_seconds();
    ops::times_transposed(x, w, {}, products);
    return processor_seconds() - start;
  };
  double least_torch = 1e30, least_own = 1e30;
  for (int round = 0; round < 3; ++round) {
    least_torch = std::min(least_torch, seconds(ops::Products::torch));
    least_own = std::min(least_own, seconds(ops::Products::own));
  }
  at::set_num_threads(threads);
  constexpr double clearly = 1.25;
  return least_own > clearly * least_torch ? ops::Products::torch : ops::Products::own;
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
  double best = 0;
  const auto began = Clock::now();
  do {
    best = std::max(best, rate(ops::Products::torch));
    if (ops::own_products(x, ops::Products::own)) best = std::max(best, rate(ops::Products::own));
  } while (std::chrono::duration<double>(Clock::now() - began).count() < seconds);
  // A part of the rows is enough for the choice.
  return {
      best, faster_products(x.narrow(0, 0, rows / 16), w),
      fmt::format("the {} product [{}, {}] x [{}, {}] measured here", type_name(type), rows, inner, inner, columns)};
}

}  // namespace terrace::measure
