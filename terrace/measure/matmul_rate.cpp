// Times many products of one shape and keeps the fastest.
#include "terrace/measure/matmul_rate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "terrace/ops/products/products.h"

namespace terrace::measure {
namespace {

std::string type_name(at::ScalarType type) {
  return type == at::kFloat ? "fp32" : type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : at::toString(type);
}

// FLOP/s of the set number of threads together, each with a product of its own. By the processor time of each thread
// neither other work on the machine nor waiting threads count.
double rate_of_threads(double flops, const std::function<void()>& product, const Clock& clock) {
  const OneThread one;
  std::vector<double> rates(static_cast<size_t>(one.threads()));
  const auto run = [&](double& rate) {
    const at::NoGradGuard no_grad;
    const double start = clock();
    product();
    rate = flops / (clock() - start);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < rates.size(); ++i) others.emplace_back([&run, &rate = rates[i]] { run(rate); });
  run(rates.front());
  for (std::thread& other : others) other.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

double rate_on_clock(double flops, const std::function<void()>& product) {
  const auto start = std::chrono::steady_clock::now();
  product();
  return flops / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Measures rates until the three highest agree or the time is over, and returns the highest.
double stable_rate(const std::function<double()>& rate, double seconds) {
  using Watch = std::chrono::steady_clock;
  constexpr size_t agreeing = 3;
  constexpr double within = 0.03;
  std::vector<double> highest;
  const auto began = Watch::now();
  do {
    highest.push_back(rate());
    std::ranges::sort(highest, std::greater<>());
    if (highest.size() < agreeing) continue;
    highest.resize(agreeing);
    if (highest.back() > (1 - within) * highest.front()) break;
  } while (std::chrono::duration<double>(Watch::now() - began).count() < seconds);
  return highest.front();
}

}  // namespace

MatmulRate matmul_rate(at::Device device, at::ScalarType type, double seconds, const Clock& clock) {
  const at::NoGradGuard no_grad;
  // A GPU needs a larger product to fill it.
  const int64_t rows = device.is_cuda() ? 8192 : 512, inner = device.is_cuda() ? 4096 : 768, columns = 4 * inner;
  const at::TensorOptions options = at::TensorOptions().device(device).dtype(type);
  const at::Tensor x = at::ones({rows, inner}, options).mul_(0.01);
  const at::Tensor w = at::ones({columns, inner}, options).mul_(0.01);
  const double flops = 2.0 * static_cast<double>(rows * inner * columns);
  const auto rate_of = [&](ops::Products products) {
    const auto product = [&] {
      const at::Tensor y = ops::times_transposed(x, w, {}, products);
      if (device.is_cuda()) y.view({-1})[0].item();
    };
    return device.is_cuda() ? rate_on_clock(flops, product) : rate_of_threads(flops, product, clock);
  };
  const std::string of_threads = device.is_cuda() || at::get_num_threads() == 1
                                     ? ""
                                     : fmt::format(" by each of {} threads", at::get_num_threads());
  const bool has_own = ops::own_products(x, ops::Products::own);
  // The first product on a GPU loads libraries and kernels, which can take longer than all that are measured.
  if (device.is_cuda()) rate_of(ops::Products::torch);
  int rounds = 0;
  double torch = 0, own = 0;
  // The rate of the faster kernels. After two rounds only those are measured that were faster.
  const auto best_rate = [&] {
    const bool both = ++rounds <= 2, torch_leads = torch >= own;
    double best = 0;
    if (both || torch_leads) torch = std::max(torch, best = rate_of(ops::Products::torch));
    if (has_own && (both || !torch_leads)) {
      const double rate = rate_of(ops::Products::own);
      own = std::max(own, rate);
      best = std::max(best, rate);
    }
    return best;
  };
  return {stable_rate(best_rate, seconds), fmt::format("the {} product [{}, {}] x [{}, {}]{} measured here",
                                                       type_name(type), rows, inner, inner, columns, of_threads)};
}

}  // namespace terrace::measure
