// Times operations and collectives on all ranks at once, and makes figures of the medians.
#include "terrace/measure/calibrate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <utility>

#include "terrace/base/text/plural.h"
#include "terrace/config/names.h"
#include "terrace/measure/fit_noise.h"
#include "terrace/measure/fit_products.h"
#include "terrace/ops/attention/attention.h"
#include "terrace/ops/block_code.h"
#include "terrace/ops/elements/norm.h"
#include "terrace/ops/kernels.h"
#include "terrace/ops/products/products.h"

namespace terrace::measure {
namespace {

using config::Precision;

Precision precision_of(at::ScalarType type) {
  return type == at::kBFloat16 ? Precision::bf16 : type == at::kHalf ? Precision::fp16 : Precision::fp32;
}

// Three digits are more than a measurement repeats.
double rounded(double value) { return std::stod(fmt::format("{:.3g}", value)); }

double product_of(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "this processor";
}

// The size of a linear layer's products.
struct Layer {
  int64_t rows, outputs, inputs;
};

// Widths of small and of large models. Products fill a GPU from some ten thousand rows of a thousand numbers on.
std::vector<Layer> layers_of_gpu(bool quick) {
  std::vector<Layer> layers = {{32768, 3072, 768},  {32768, 768, 3072}, {16384, 7168, 1792},
                               {16384, 1792, 7168}, {8192, 4096, 4096}, {4096, 11008, 4096},
                               {8192, 1024, 1024},  {2048, 4096, 1024}, {512, 4096, 4096}};
  if (!quick) {
    layers.insert(
        layers.end(),
        {{16384, 2304, 768}, {8192, 14336, 4096}, {4096, 4096, 14336}, {1024, 8192, 2048}, {1600, 3600, 1248}});
  }
  return layers;
}

std::vector<Layer> layers_of(bool is_gpu, bool quick) {
  if (is_gpu) return layers_of_gpu(quick);
  std::vector<Layer> layers = {{512, 768, 256},  {512, 256, 1024}, {128, 2048, 512},
                               {1024, 512, 512}, {512, 4096, 256}, {256, 1024, 1024},
                               {64, 512, 512},   {32, 1024, 512},  {16, 768, 768}};
  if (!quick) layers.insert(layers.end(), {{2048, 768, 768}, {1024, 3072, 768}, {512, 2048, 2048}, {200, 900, 312}});
  return layers;
}

class Calibration {
 public:
  Calibration(comm::World& world, const at::Device& device, const CalibrationOptions& options)
      : world_(world), device_(device), options_(options), all_(world.connect(mesh::all_ranks("ranks", world.size()))) {
    const int64_t here = world.ranks_per_node();
    const size_t links = (here > 1 ? 1 : 0) + (world.size() > here ? 1 : 0);
    parts_ = options.types.size() * (layers().size() + 2) + links + 5;
  }

  machine::Machine run() {
    machine::Machine machine{.name = options_.name, .about = about(), .device = {}, .tiers = {}, .storage = {}};
    machine::Device& device = machine.device;
    device.name = device_.is_cuda() ? "this GPU" : fmt::format("{} of {}", threads(), processor_name());
    device.memory_bytes = rounded(options_.memory_bytes);
    if (options_.host_bytes > 0) {
      machine.host = {.memory_bytes = rounded(options_.host_bytes), .holds_devices = !device_.is_cuda()};
    }
    device.compute_units = device_.is_cuda() ? 1 : at::get_num_threads();
    device.memory_bandwidth = rounded(copy_bandwidth());
    measure_coding(device);
    measure_overheads(device);
    const std::vector<TimedProduct> products = timed_products();
    next("fit the rates of products");
    fit_products(products, device_.is_cuda(), device);
    for (const at::ScalarType type : options_.types) {
      machine::ComputeRate& rate = device.products[static_cast<size_t>(precision_of(type))];
      rate.attention = std::min(2.0, rounded(attention_rate(type) / rate.achievable));
      rate.passes = rounded(pass_bandwidth(type));
      rate.achievable = rounded(rate.achievable);
      rate.peak = std::max(rounded(rate.peak), rate.achievable);
    }
    machine.noise = measured_noise();
    measure_links(machine);
    next("");
    return machine;
  }

 private:
  std::string threads() const { return counted(at::get_num_threads(), "thread"); }

  std::string about() const {
    return fmt::format("Measured by terrace calibrate{} with {}{}", options_.quick ? " --quick" : "",
                       counted(world_.size(), "rank"), device_.is_cuda() ? "" : fmt::format(" of {}", threads()));
  }

  std::vector<Layer> layers() const { return layers_of(device_.is_cuda(), options_.quick); }

  void next(const std::string& what) {
    if (options_.progress) options_.progress(static_cast<double>(part_) / static_cast<double>(parts_), what);
    ++part_;
  }

  // Waits until the device has computed everything.
  void finish() const {
    if (device_.is_cuda()) at::zeros({1}, at::TensorOptions().device(device_)).item();
  }

  // The median time of the body, in the mean of the ranks, which execute it equally often at the same time. Ranks may
  // share cores, so a round takes longer than a core stays with one of them.
  double seconds_of(const std::function<void()>& body) { return seconds_of(body, options_.quick); }

  double seconds_of(const std::function<void()>& body, bool quick) {
    once(body, 1);
    return median_of_rounds(body, of_first_rank(once(body, 1)), quick);
  }

  // The time of products, which compute far more than they read. A quick calibration takes the second time as it is
  // where that takes longer than all rounds may, as for a precision that the processor lacks. Copies vary too much for
  // that.
  double seconds_of_product(const std::function<void()>& body) {
    once(body, 1);
    const double second = once(body, 1), of_first = of_first_rank(second);
    if (options_.quick && of_first > budget(true)) return mean_of_ranks(second);
    return median_of_rounds(body, of_first, options_.quick);
  }

  double once(const std::function<void()>& body, int64_t repeats) const {
    finish();
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < repeats; ++i) body();
    finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
           static_cast<double>(repeats);
  }

  // The seconds that all rounds of a measurement should take together.
  static double budget(bool quick) { return quick ? 0.075 : 0.3; }

  // `about`: the seconds of one execution, equal on all ranks.
  double median_of_rounds(const std::function<void()>& body, double about, bool quick) {
    const double round_seconds = quick ? 0.015 : 0.03;
    const auto repeats = std::clamp<int64_t>(static_cast<int64_t>(round_seconds / (about + 1e-9)), 1, 100'000);
    std::vector<double> times = {once(body, repeats)};
    // Ranks that share cores take several times as long as one.
    const double round = of_first_rank(times.front() * static_cast<double>(repeats));
    const auto rounds = std::clamp<int64_t>(static_cast<int64_t>(budget(quick) / (round + 1e-9)), 3, 9);
    while (static_cast<int64_t>(times.size()) < rounds) times.push_back(once(body, repeats));
    std::ranges::nth_element(times, times.begin() + rounds / 2);
    return mean_of_ranks(times[static_cast<size_t>(rounds / 2)]);
  }

  double mean_of_ranks(double value) {
    all_->all_reduce(&value, 1, comm::Type::fp64, {.what = "calibrate"}).wait();
    return value / static_cast<double>(world_.size());
  }

  double of_first_rank(double value) {
    all_->broadcast(&value, 1, comm::Type::fp64, 0, {.what = "calibrate"}).wait();
    return value;
  }

  // A GPU's clock is higher with equal numbers, whose products switch fewer of its gates.
  at::Tensor filled(int64_t rows, int64_t columns, at::ScalarType type) const {
    const at::TensorOptions wide = at::TensorOptions().device(device_);
    if (device_.is_cuda()) return at::randn({rows, columns}, wide).mul_(0.01).to(type);
    return at::full({rows, columns}, 0.01, at::TensorOptions().device(device_).dtype(type));
  }

  ops::Weight weight(int64_t size, at::ScalarType type) const {
    const at::TensorOptions options = at::TensorOptions().device(device_).dtype(type);
    return {.value = at::ones({size}, options).requires_grad_(true),
            .gradient = at::zeros({size}, options.dtype(at::kFloat))};
  }

  double copy_bandwidth() {
    next("copies");
    const at::Tensor from = filled(1 << 12, 1 << 12, at::kFloat), to = at::empty_like(from);
    return 2 * static_cast<double>(from.nbytes()) / seconds_of([&] { to.copy_(from); });
  }

  // An operation on so few numbers that it takes no time of its own, forward and backward.
  void measure_overheads(machine::Device& device) {
    next("operations without work");
    const at::Tensor x = filled(1, 16, at::kFloat).requires_grad_(true), gradient = filled(1, 16, at::kFloat);
    const ops::Weight scale = weight(16, at::kFloat), shift = weight(16, at::kFloat);
    constexpr int norms = 16;
    const double both = seconds_of([&] {
      at::Tensor y = x;
      for (int i = 0; i < (device_.is_cuda() ? norms : 1); ++i) y = ops::layer_norm(y, scale, shift, 1e-5);
      y.backward(gradient);
      x.mutable_grad().reset();
    });
    if (!device_.is_cuda()) {
      device.kernel_seconds = rounded(std::min(0.01, both / 2));
      return;
    }
    // The host's launches take longer than these kernels: one in forward, and ten in backward of dx and of the sums
    // for weight and bias, which are added to their gradients.
    constexpr int kernels_of_norm = 11;
    device.launch_seconds = rounded(both / (norms * kernels_of_norm));
    device.kernel_seconds = rounded(seconds_of_waiting_kernel());
  }

  // The device's time for a kernel without work whose launch is no matter, since it waits behind long ones.
  double seconds_of_waiting_kernel() {
    constexpr int kernels = 400, products = 6;
    const at::Tensor x = filled(8192, 8192, at::kBFloat16), product = at::empty_like(x),
                     one = filled(1, 16, at::kFloat);
    const at::NoGradGuard no_grad;
    const auto multiply = [&] {
      at::Tensor out = product;
      for (int i = 0; i < products; ++i) at::mm_out(out, x, x);
    };
    const double alone = seconds_of(multiply), with_kernels = seconds_of([&] {
                                                 multiply();
                                                 for (int i = 0; i < kernels; ++i) one.add_(1.0);
                                               });
    return std::max(1e-7, (with_kernels - alone) / kernels);
  }

  // The operands of a layer's products.
  struct Operands {
    at::Tensor x, w, dy, y, gradient;
  };

  // Makes so many operands that a step's other tensors would have taken their place in the caches before they are used
  // again.
  std::vector<Operands> operands_of(const Layer& layer, at::ScalarType type) const {
    const auto& [rows, outputs, inputs] = layer;
    std::vector<Operands> sets;
    int64_t bytes = 0;
    constexpr int64_t most_bytes = int64_t{96} << 20;
    constexpr size_t most_sets = 32;
    do {
      sets.push_back({.x = filled(rows, inputs, type),
                      .w = filled(outputs, inputs, type),
                      .dy = filled(rows, outputs, type),
                      .y = filled(rows, inputs, type),
                      .gradient = filled(outputs, inputs, at::kFloat)});
      for (const at::Tensor& one : {sets.back().x, sets.back().w, sets.back().dy, sets.back().gradient}) {
        bytes += static_cast<int64_t>(one.nbytes());
      }
    } while (bytes < most_bytes && sets.size() < most_sets);
    return sets;
  }

  // The products of a layer, of which half have an activation on a processor, as those of a feed-forward layer do.
  // There it costs next to nothing; on a GPU it takes a tenth of a product, which predictions count as a pass of its
  // own.
  void time_products(const Layer& layer, at::ScalarType type, std::vector<TimedProduct>& all) {
    const auto& [rows, outputs, inputs] = layer;
    const std::vector<Operands> sets = operands_of(layer, type);
    const ops::Products kernels =
        ops::own_products(sets.front().x, ops::Products::own) ? ops::Products::own : ops::Products::torch;
    size_t turn = 0;
    const auto add = [&](machine::ProductSize size, double bytes, const std::function<void(const Operands&)>& product) {
      size.bytes = bytes;
      all.push_back({.precision = precision_of(type), .size = size, .seconds = seconds_of_product([&] {
                                                                      product(sets[turn++ % sets.size()]);
                                                                    })});
    };
    const auto element = static_cast<double>(sets.front().x.element_size());
    const double read = element * (product_of(rows, inputs) + product_of(rows, outputs)),
                 weights = product_of(outputs, inputs);
    const machine::ProductSize forward{.m = rows, .n = outputs, .k = inputs},
        input{.m = rows, .n = inputs, .k = outputs};
    add(forward, read + element * weights, [&](const Operands& o) { ops::times_transposed(o.x, o.w, {}, kernels); });
    add(forward, read + element * weights, [&](const Operands& o) {
      if (device_.is_cuda()) return void(ops::times_transposed(o.x, o.w, {}, kernels));
      ops::times_transposed_activated(o.x, o.w, {}, kernels, ops::Activation::gelu);
    });
    add(input, read + element * weights, [&](const Operands& o) { ops::times(o.dy, o.w, kernels); });
    add(input, read + element * weights, [&](const Operands& o) {
      if (device_.is_cuda()) return void(ops::times(o.dy, o.w, kernels));
      ops::times_activation_backward(o.dy, o.w, o.y, kernels, ops::Activation::gelu);
    });
    // The weight gradient counts as often as both others.
    for (int i = 0; i < 2; ++i) {
      add({.m = outputs, .n = inputs, .k = rows}, read + 8 * weights,
          [&](const Operands& o) { ops::add_outer_product(o.gradient, o.dy, o.x, kernels); });
    }
  }

  std::vector<TimedProduct> timed_products() {
    const at::NoGradGuard no_grad;
    std::vector<TimedProduct> all;
    for (const at::ScalarType type : options_.types) {
      for (const Layer& layer : layers()) {
        next(fmt::format("{} products [{}, {}] x [{}, {}]", config::name_of(precision_of(type)), layer.rows,
                         layer.inputs, layer.inputs, layer.outputs));
        time_products(layer, type, all);
      }
    }
    return all;
  }

  // Values that no cache holds, in each of the codes. Of these few figures all seconds of coding follow, so a quick
  // calibration takes as long for them as any other: what disturbs a tenth of a second does not count.
  void measure_coding(machine::Device& device) {
    next("block quantization");
    const at::Tensor values = filled(1, device_.is_cuda() ? 1 << 26 : 1 << 22, at::kFloat).flatten(),
                     back = at::empty_like(values);
    const ops::Kernels& kernels = ops::kernels(device_);
    const auto rate = [&](const auto& code) {
      double seconds = 0;
      for (const ops::BlockCode kind : {ops::BlockCode::int8, ops::BlockCode::int4}) {
        const int64_t bytes = ops::BlockLayout{kind, 1, values.numel()}.payload_bytes();
        const at::Tensor payload = at::empty({bytes}, values.options().dtype(at::kByte));
        kernels.encode_blocks({.code = kind}, values, payload);
        seconds += seconds_of([&] { code(kind, payload); }, false);
      }
      return rounded(2 * static_cast<double>(values.nbytes()) / seconds);
    };
    device.encode =
        rate([&](ops::BlockCode kind, const at::Tensor& to) { kernels.encode_blocks({.code = kind}, values, to); });
    device.encode_at_random = rate([&](ops::BlockCode kind, const at::Tensor& to) {
      kernels.encode_blocks({.code = kind, .draw = ops::RoundingDraw{.key = {1, 2}, .words = {3, 4, 5}}}, values, to);
    });
    // A sum of payloads decodes the first one and adds the others.
    bool adds = false;
    device.decode = rate([&](ops::BlockCode kind, const at::Tensor& from) {
      kernels.decode_blocks({.code = kind, .adds = adds}, from, back);
      adds = !adds;
    });
  }

  // Forward and backward of causal attention, seven products of half of the square.
  double attention_rate(at::ScalarType type) {
    next(fmt::format("{} attention", config::name_of(precision_of(type))));
    struct Shape {
      int64_t samples, positions, heads, width;
    };
    std::vector<Shape> shapes = {{2, 256, 4, 64}, {1, 512, 4, 128}};
    // These are so large that a GPU takes longer than the host takes to launch forward and backward, about 0.1 ms.
    if (device_.is_cuda()) shapes = {{32, 1024, 16, 64}, {8, 2048, 16, 128}};
    double flops = 0, seconds = 0;
    for (const auto& [samples, positions, heads, width] : shapes) {
      const ops::HeadLayout layout{.groups = heads, .queries_per_group = 1, .head_dim = width};
      const at::Tensor joint =
          filled(samples * positions, layout.columns(), type).view({samples, positions, -1}).requires_grad_(true);
      const at::Tensor gradient = filled(samples * positions, heads * width, type).view({samples, positions, -1});
      seconds += seconds_of([&] {
        ops::joint_attention(joint, layout, nullptr, {}, {}).backward(gradient);
        joint.mutable_grad().reset();
      });
      flops += 7 * product_of(samples * heads * positions, positions * width);
    }
    return flops / seconds;
  }

  // A norm of a sum, as in every layer: forward and backward read and write eight tensors.
  double pass_bandwidth(at::ScalarType type) {
    next(fmt::format("{} norms", config::name_of(precision_of(type))));
    std::vector<std::pair<int64_t, int64_t>> shapes = {{512, 256}, {512, 768}};
    // These are so large that a GPU takes longer than the host takes to launch forward and backward, about 0.1 ms.
    if (device_.is_cuda()) shapes = {{32768, 2048}, {32768, 4096}};
    double bytes = 0, seconds = 0;
    for (const auto& [rows, width] : shapes) {
      const at::Tensor x = filled(rows, width, type).requires_grad_(true), added = filled(rows, width, type),
                       gradient = filled(rows, width, type);
      const ops::Weight scale = weight(width, type), shift = weight(width, type);
      seconds += seconds_of([&] {
        ops::ResidualStream stream{x, added};
        ops::layer_norm(stream, scale, shift, 1e-5).backward(gradient);
        x.mutable_grad().reset();
      });
      bytes += 8 * static_cast<double>(x.nbytes());
    }
    return bytes / seconds;
  }

  // One product over and over for some seconds, each timed by itself, on all ranks at the same time.
  machine::Noise measured_noise() {
    next("equal products");
    const at::NoGradGuard no_grad;
    const at::ScalarType type = device_.is_cuda() ? at::kBFloat16 : at::kFloat;
    const int64_t rows = device_.is_cuda() ? 16384 : 256, width = device_.is_cuda() ? 8192 : 1024;
    const at::Tensor x = filled(rows, width, type), w = filled(width, width, type);
    const ops::Products kernels = ops::own_products(x, ops::Products::own) ? ops::Products::own : ops::Products::torch;
    const auto multiply = [&] { ops::times(x, w, kernels); };
    once(multiply, 1);
    const double seconds = options_.quick ? 1 : 6;
    std::vector<double> times;
    for (double passed = 0; passed < seconds; passed += times.back()) times.push_back(once(multiply, 1));
    return fit_noise(of_all_ranks(summarize(times)));
  }

  std::vector<RankTimes> of_all_ranks(const RankTimes& own) {
    constexpr size_t figures = 5;
    std::vector<double> all(figures * static_cast<size_t>(world_.size()), 0.0);
    const std::array<double, figures> values = {own.median, own.spread, own.seconds, own.pauses, own.pause_seconds};
    std::ranges::copy(values, all.begin() + static_cast<int64_t>(figures) * world_.rank());
    all_->all_reduce(all.data(), static_cast<int64_t>(all.size()), comm::Type::fp64, {.what = "calibrate"}).wait();
    std::vector<RankTimes> ranks;
    for (size_t i = 0; i < all.size(); i += figures) {
      ranks.push_back({all[i], all[i + 1], all[i + 2], all[i + 3], all[i + 4]});
    }
    return ranks;
  }

  // The collectives of a group. In a ring of n ranks a sum passes (n - 1) / n of the data twice, a gather or reduction
  // once.
  void measure_group(comm::Comm& group, machine::Tier& tier) {
    const int64_t count = device_.is_cuda() ? 1 << 24 : 1 << 19;
    const auto ranks = static_cast<double>(group.size());
    const at::Tensor whole = filled(group.size(), count / group.size(), at::kFloat);
    const at::Tensor part = filled(1, count / group.size(), at::kFloat);
    const auto seconds = [&](int64_t elements, int kind) {
      return seconds_of([&, each = elements / group.size()] {
        const comm::Label label{.what = "calibrate"};
        if (kind == 0) group.all_reduce(whole.data_ptr(), each * group.size(), comm::Type::fp32, label).wait();
        if (kind == 1) group.all_gather(part.data_ptr(), whole.data_ptr(), each, comm::Type::fp32, label).wait();
        if (kind == 2) group.reduce_scatter(whole.data_ptr(), part.data_ptr(), each, comm::Type::fp32, label).wait();
      });
    };
    const double steps = 2 * (ranks - 1), small = seconds(group.size(), 0);
    tier.latency_seconds = rounded(std::clamp(small / steps, 1e-9, 0.1));
    double logarithms = 0;
    for (int kind = 0; kind < 3; ++kind) {
      const double passes = (kind == 0 ? 2 : 1) * (ranks - 1) / ranks;
      // Beside other work a small call may take longer than a large one: half of this one moves data at least.
      const double all = seconds(count, kind), moving = std::max(all / 2, all - small / (kind == 0 ? 1 : 2));
      logarithms += std::log(passes * 4 * static_cast<double>(count) / moving);
    }
    tier.link_bandwidth = rounded(std::max(1e6, std::exp(logarithms / 3)));
  }

  void measure_links(machine::Machine& machine) {
    const int64_t here = world_.ranks_per_node(), ranks = world_.size();
    if (device_.is_cuda()) world_.use_gpu(device_.index());
    if (here > 1) {
      next("collectives on a machine");
      const mesh::Group group = group_of(world_.rank() / here * here, here, 1);
      const std::unique_ptr<comm::Comm> connected = world_.connect(group);
      machine::Tier& tier = machine.tiers.emplace_back(machine::Tier{.name = "node", .devices = here});
      measure_group(*connected, tier);
    }
    if (ranks > here) {
      next("collectives among machines");
      const std::unique_ptr<comm::Comm> connected = world_.connect(group_of(world_.rank() % here, ranks / here, here));
      machine::Tier& tier = machine.tiers.emplace_back(
          machine::Tier{.name = "network", .devices = ranks, .devices_per_link = static_cast<double>(here)});
      measure_group(*connected, tier);
      tier.link_bandwidth = rounded(tier.link_bandwidth * static_cast<double>(here));
      // Sums over several machines are direct exchanges here, and so are an MPI library's nonblocking gathers.
      if (!device_.is_cuda()) tier.exchange = machine::Exchange::direct;
    }
  }

  static mesh::Group group_of(int64_t first, int64_t number, int64_t stride) {
    return mesh::spaced_ranks("calibrate", first, number, stride);
  }

  comm::World& world_;
  at::Device device_;
  const CalibrationOptions& options_;
  std::unique_ptr<comm::Comm> all_;
  size_t part_ = 0, parts_ = 0;
};

}  // namespace

machine::Machine calibrate(comm::World& world, const at::Device& device, const CalibrationOptions& options) {
  return Calibration(world, device, options).run();
}

}  // namespace terrace::measure
