// Times products, copies and sums of two ranks.
#include "terrace/measure/rank_speed.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "terrace/measure/fit_noise.h"
#include "terrace/ops/products/products.h"

namespace terrace::measure {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double seconds_of_each = 0.5;
constexpr int64_t repeats_of_sums = 8;

double seconds_since(Clock::time_point when) { return std::chrono::duration<double>(Clock::now() - when).count(); }

class Speeds {
 public:
  Speeds(comm::World& world, const at::Device& device)
      : world_(world), device_(device), all_(world.connect(mesh::all_ranks("speeds", world.size()))) {
    if (device.is_cuda()) world.use_gpu(device.index());
  }

  RankSpeed measure() {
    const at::NoGradGuard no_grad;
    RankSpeed speed;
    const at::ScalarType type = device_.is_cuda() ? at::kBFloat16 : at::kFloat;
    const int64_t size = device_.is_cuda() ? 8192 : 768;
    const at::Tensor a = random(size, type), b = random(size, type);
    const ops::Products kernels = ops::own_products(a, ops::Products::own) ? ops::Products::own : ops::Products::torch;
    const std::vector<double> times = seconds_of([&] { ops::times(a, b, kernels); });
    const RankTimes summary = summarize(times);
    speed.product_flops = 2 * static_cast<double>(size * size * size) / mean_of(times);
    speed.product_spread = summary.spread;
    speed.longest_product = std::ranges::max(times) / summary.median;
    const at::Tensor from = random(device_.is_cuda() ? 1 << 14 : 1 << 12, at::kFloat), to = at::empty_like(from);
    speed.copied_bytes = 2 * static_cast<double>(from.nbytes()) / mean_of(seconds_of([&] { to.copy_(from); }));
    const int64_t here = world_.ranks_per_node();
    add_links(1, here, speed);
    if (world_.size() > here) add_links(here, world_.size(), speed);
    return speed;
  }

 private:
  at::Tensor random(int64_t size, at::ScalarType type) const {
    return at::randn({size, size}, at::TensorOptions().device(device_)).mul_(0.01).to(type);
  }

  void finish() const {
    if (device_.is_cuda()) at::zeros({1}, at::TensorOptions().device(device_)).item();
  }

  static double mean_of(const std::vector<double>& times) {
    return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  }

  // The times of as many executions as fill the time of a measurement, each by itself.
  std::vector<double> seconds_of(const std::function<void()>& body) {
    body();
    finish();
    all_->barrier({.what = "measure"}).wait();
    const auto began = Clock::now();
    std::vector<double> times;
    double ended = 0;
    do {
      body();
      finish();
      const double now = seconds_since(began);
      times.push_back(now - std::exchange(ended, now));
    } while (ended < seconds_of_each);
    return times;
  }

  // Pairs of ranks that are so far apart, within units of so many ranks: first those whose first member has an even
  // number among such, then the others.
  void add_links(int64_t distance, int64_t unit, RankSpeed& speed) {
    const int64_t rank = world_.rank(), first_of_unit = rank / unit * unit, place = (rank - first_of_unit) / distance;
    for (const int64_t turn : {0, 1}) {
      const int64_t other = rank + (place % 2 == turn ? distance : -distance);
      const bool has_other = other >= first_of_unit && other < std::min(first_of_unit + unit, world_.size());
      std::optional<double> rate;
      if (has_other) rate = rate_to(other);
      all_->barrier({.what = "measure"}).wait();
      if (rate) speed.links.emplace_back(other, *rate);
    }
  }

  double rate_to(int64_t other) {
    const int64_t rank = world_.rank(), count = device_.is_cuda() ? 1 << 24 : 1 << 20;
    const std::unique_ptr<comm::Comm> pair =
        world_.connect({.name = "pair", .ranks = {std::min(rank, other), std::max(rank, other)}});
    const at::Tensor values = at::zeros({count}, at::TensorOptions().device(device_).dtype(at::kFloat));
    const auto sum = [&] { pair->all_reduce(values.data_ptr(), count, comm::Type::fp32, {.what = "measure"}).wait(); };
    sum();
    finish();
    const auto began = Clock::now();
    for (int64_t i = 0; i < repeats_of_sums; ++i) sum();
    finish();
    // Each of two sends half of the values and then half of the sums.
    return 4 * static_cast<double>(count * repeats_of_sums) / seconds_since(began);
  }

  comm::World& world_;
  const at::Device device_;
  const std::unique_ptr<comm::Comm> all_;
};

}  // namespace

RankSpeed measure_rank_speed(comm::World& world, const at::Device& device) { return Speeds(world, device).measure(); }

RankSpeed described_speed(const machine::Machine& machine, const at::Device& device, int64_t rank,
                          const RankSpeed& measured) {
  const config::Precision precision = device.is_cuda() ? config::Precision::bf16 : config::Precision::fp32;
  RankSpeed described{.product_flops = machine.device.rate(precision).achievable,
                      .copied_bytes = machine.device.memory_bandwidth,
                      .product_spread = machine.noise.instruction_spread};
  for (const auto& [other, rate] : measured.links) {
    for (const machine::Tier& tier : machine.tiers) {
      if (rank / tier.devices != other / tier.devices) continue;
      described.links.emplace_back(other, tier.link_bandwidth / tier.devices_per_link);
      break;
    }
  }
  return described;
}

}  // namespace terrace::measure
