// Times many products of one shape and keeps the fastest, and chooses between our products and torch's.
#include "terrace/measure/matmul_rate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

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

// While an object of this class exists, a product takes one thread, in this thread and in threads started meanwhile.
class OneThread {
 public:
  OneThread() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  int threads() const { return threads_; }

 private:
  int threads_;
};

// Compares the processor time of one thread, which a busy machine affects less than the time on the clock: the choice
// decides the last bits of a run, so it should be the same in every run on a machine.
ops::Products faster_products(const at::Tensor& x, const at::Tensor& w) {
  if (!ops::own_products(x, ops::Products::own)) return ops::Products::torch;
  const OneThread one;
  const auto seconds = [&](ops::Products products) {
    const double start = processor_seconds();
    ops::times_transposed(x, w, {}, products);
    return processor_seconds() - start;
  };
  double least_torch = 1e30, least_own = 1e30;
  for (int round = 0; round < 4; ++round) {  // the first round fills caches
    least_torch = std::min(least_torch, seconds(ops::Products::torch));
    least_own = std::min(least_own, seconds(ops::Products::own));
  }
  constexpr double clearly = 1.25;
  return least_own > clearly * least_torch ? ops::Products::torch : ops::Products::own;
}

// FLOP/s of the set number of threads together, each with a product of its own. Uses the processor time of each thread,
// so that neither other work on the machine nor waiting threads count.
double rate_of_threads(double flops, const std::function<void()>& product) {
  const OneThread one;
  std::vector<double> rates(static_cast<size_t>(one.threads()));
  const auto run = [&](double& rate) {
    const at::NoGradGuard no_grad;
    const double start = processor_seconds();
    product();
    rate = flops / (processor_seconds() - start);
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
  using Clock = std::chrono::steady_clock;
  constexpr size_t agreeing = 3;
  constexpr double within = 0.03;
  std::vector<double> highest;
  const auto began = Clock::now();
  do {
    highest.push_back(rate());
    std::ranges::sort(highest, std::greater<>());
    if (highest.size() < agreeing) continue;
    highest.resize(agreeing);
    if (highest.back() > (1 - within) * highest.front()) break;
  } while (std::chrono::duration<double>(Clock::now() - began).count() < seconds);
  return highest.front();
}

}  // namespace

MatmulRate matmul_rate(at::Device device, at::ScalarType type, double seconds) {
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
    return device.is_cuda() ? rate_on_clock(flops, product) : rate_of_threads(flops, product);
  };
  // A few rows are enough for the choice.
  const ops::Products faster = faster_products(x.narrow(0, 0, 128), w);
  const std::string of_threads = device.is_cuda() || at::get_num_threads() == 1
                                     ? ""
                                     : fmt::format(" by each of {} threads", at::get_num_threads());
  const auto best_rate = [&] {
    const double torch = rate_of(ops::Products::torch);
    return ops::own_products(x, ops::Products::own) ? std::max(torch, rate_of(ops::Products::own)) : torch;
  };
  return {stable_rate(best_rate, seconds), faster,
          fmt::format("the {} product [{}, {}] x [{}, {}]{} measured here", type_name(type), rows, inner, inner,
                      columns, of_threads)};
}

}  // namespace terrace::measure
