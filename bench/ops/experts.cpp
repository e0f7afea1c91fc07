// Times forward and backward of a layer of experts beside PyTorch's ways to write one and beside a dense layer of ours
// with the same active work. Shapes and loads are drawn by a seed; all take turns in every round, in rotating order,
// and the ratios of a round are of its own times: printed are their medians and quartiles.
//
// Arguments: SEED ROUNDS THREADS fp32|bf16 [wide|narrow|both] [SHAPES]. With one thread, processor time is measured,
// which other programs on the machine disturb less; with several, the time that passes.
//
// PyTorch's ways are calls of its library from C++ without Python: a loop over the experts, each of which takes its
// rows by index_select and adds its results by index_add; and two grouped products (torch.nn.functional.grouped_mm) of
// rows that are sorted by expert. Both route as Mixtral does, like ours, and all step through router, gathering,
// experts and sum.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIndexing.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/ops/seconds.h"
#include "terrace/memory/host_memory.h"
#include "terrace/ops/experts/expert_feed_forward.h"
#include "terrace/ops/experts/expert_rows.h"
#include "terrace/ops/experts/router.h"
#include "terrace/ops/products/feed_forward.h"

namespace {

using namespace terrace::ops;

struct Shape {
  int64_t tokens, width, features, experts, chosen;
  double unevenness;  // standard deviation of the experts' mean logits
};

Shape drawn_shape(std::mt19937& draw, bool narrow) {
  const auto number = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(draw() % (high - low + 1)); };
  const double unevenness = static_cast<double>(number(0, 10)) / 10;
  if (narrow) return {128 * number(8, 16), 64 * number(6, 12), 16 * number(8, 16), 64, 8, unevenness};
  return {128 * number(8, 16), 64 * number(6, 12), 64 * number(12, 24), 8, 2, unevenness};
}

struct Tensors {
  at::Tensor x, dy, router, first, second;  // gates before ups in `first` [E, 2F, D]
};

Tensors drawn_tensors(const Shape& s, at::ScalarType type, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  const auto normal = [&](at::IntArrayRef shape, double size) { return at::randn(shape).mul(size); };
  const double by_width = 1 / std::sqrt(static_cast<double>(s.width));
  Tensors t;
  t.x = normal({s.tokens, s.width}, 1);
  // The first column is 1, so that the first column of the router shifts an expert's logits.
  t.x.select(1, 0).fill_(1);
  t.x = t.x.to(type);
  t.dy = normal({s.tokens, s.width}, 1).to(type);
  t.router = normal({s.experts, s.width}, by_width);
  t.router.select(1, 0).copy_(normal({s.experts}, s.unevenness));
  t.first = normal({s.experts, 2 * s.features, s.width}, by_width).to(type);
  t.second = normal({s.experts, s.width, s.features}, 1 / std::sqrt(static_cast<double>(s.features))).to(type);
  return t;
}

at::Tensor leaf(const at::Tensor& value) { return value.detach().clone().set_requires_grad(true); }

Weight trained(const at::Tensor& value) {
  return {leaf(value), at::zeros(value.sizes()), ProductChoice::all(Products::own), nullptr,
          std::make_shared<bool>(false)};
}

// As at the start of a step: gradients are stored, as PyTorch's are where they were set to none.
void begin_step(std::initializer_list<Weight> weights) {
  for (const Weight& each : weights) *each.gradient_holds_sum = false;
}

// One of those that are compared: step() computes forward and backward.
struct Participant {
  std::string name;
  std::function<void()> step;
};

Participant our_experts(const Shape& s, const Tensors& t) {
  const at::Tensor x = leaf(t.x), dy = t.dy;
  const Weight router = trained(t.router);
  const ExpertWeights weights{trained(t.first), trained(t.second)};
  const RouterSettings settings{.experts_per_token = s.chosen, .normalised = true};
  return {"ours", [=] {
            x.mutable_grad() = at::Tensor();
            begin_step({router, weights.first, weights.second});
            const Routing routing = route(x, router, {}, settings);
            const ExpertRows rows = rows_of_choices(routing.choice.experts, s.experts);
            const at::Tensor y = expert_feed_forward(gather_rows(x, rows), weights_of_rows(routing.weights, rows),
                                                     rows.offsets, weights, Activation::swiglu);
            torch::autograd::backward({sum_rows(y, rows)}, {dy});
          }};
}

Participant our_dense(const Shape& s, const Tensors& t) {
  const int64_t features = s.chosen * s.features;
  const at::Tensor x = leaf(t.x.unsqueeze(0)), dy = t.dy.unsqueeze(0);
  const auto joined = [&](const at::Tensor& w) { return w.narrow(0, 0, s.chosen); };
  const FeedForwardWeights weights{trained(joined(t.first).reshape({2 * features, s.width})),
                                   {},
                                   trained(joined(t.second).transpose(0, 1).reshape({s.width, features})),
                                   {}};
  return {"dense", [=] {
            x.mutable_grad() = at::Tensor();
            begin_step({weights.first, weights.second});
            torch::autograd::backward({feed_forward(x, weights, Activation::swiglu)}, {dy});
          }};
}

struct TorchLayer {
  at::Tensor x, router, first, second;

  explicit TorchLayer(const Tensors& t)
      : x(leaf(t.x)), router(leaf(t.router)), first(leaf(t.first)), second(leaf(t.second)) {}

  void clear() const {
    for (const at::Tensor& each : {x, router, first, second}) each.mutable_grad() = at::Tensor();
  }

  // The weights [N, k] and experts of Mixtral's router.
  std::pair<at::Tensor, at::Tensor> route(const Shape& s) const {
    const at::Tensor scores = at::softmax(at::linear(x.to(at::kFloat), router), 1);
    const auto [best, experts] = at::topk(scores, s.chosen, 1);
    return {best.div(best.sum(1, true)), experts};
  }
};

at::Tensor gated(const at::Tensor& inner) {
  const auto halves = inner.chunk(2, 1);
  return at::silu(halves[0]).mul(halves[1]);
}

Participant torch_loop(const Shape& s, const Tensors& t) {
  const TorchLayer layer(t);
  const at::Tensor dy = t.dy;
  return {"loop", [=] {
            layer.clear();
            const auto [weights, experts] = layer.route(s);
            at::Tensor y = at::zeros_like(layer.x);
            for (int64_t e = 0; e < s.experts; ++e) {
              const at::Tensor places = experts.eq(e).nonzero();
              if (places.size(0) == 0) continue;
              const at::Tensor tokens = places.select(1, 0), slots = places.select(1, 1);
              const at::Tensor active = gated(at::linear(layer.x.index_select(0, tokens), layer.first[e]));
              const at::Tensor weight = weights.index({tokens, slots}).unsqueeze(1);
              y = y.index_add(0, tokens, at::linear(active, layer.second[e]).mul(weight).to(y.scalar_type()));
            }
            torch::autograd::backward({y}, {dy});
          }};
}

Participant torch_grouped(const Shape& s, const Tensors& t) {
  const TorchLayer layer(t);
  const at::Tensor dy = t.dy;
  return {"grouped_mm", [=] {
            layer.clear();
            const auto [weights, experts] = layer.route(s);
            const at::Tensor flat = experts.flatten();
            const at::Tensor order = flat.argsort(/*stable=*/true, 0, false), tokens = order.div(s.chosen, "floor");
            const at::Tensor ends = at::bincount(flat, {}, s.experts).cumsum(0).to(at::kInt);
            const at::Tensor rows = layer.x.index_select(0, tokens);
            const at::Tensor active = gated(at::_grouped_mm(rows, layer.first.transpose(1, 2), ends));
            const at::Tensor results = at::_grouped_mm(active, layer.second.transpose(1, 2), ends);
            const at::Tensor weighted = results.mul(weights.flatten().index_select(0, order).unsqueeze(1));
            const at::Tensor y = at::zeros_like(layer.x).index_add(0, tokens, weighted.to(layer.x.scalar_type()));
            torch::autograd::backward({y}, {dy});
          }};
}

double processor_seconds(const std::function<void()>& work) {
  const std::clock_t began = std::clock();
  work();
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

std::string quartiles(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const auto at = [&](double share) {
    return numbers[static_cast<size_t>(share * static_cast<double>(numbers.size() - 1))];
  };
  return fmt::format("{:.2f} ({:.2f} .. {:.2f})", at(0.5), at(0.25), at(0.75));
}

void compare(const Shape& s, at::ScalarType type, int64_t seed, int rounds) {
  const Tensors t = drawn_tensors(s, type, seed);
  std::vector<Participant> participants{our_experts(s, t), our_dense(s, t), torch_loop(s, t), torch_grouped(s, t)};
  std::erase_if(participants, [](const Participant& each) {
    try {
      each.step();
      return false;
    } catch (const std::exception& error) {
      fmt::print(stderr, "without {}: {}\n", each.name, std::string(error.what()).substr(0, 200));
      return true;
    }
  });
  std::vector<std::vector<double>> times(participants.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < participants.size(); ++i) {
      const size_t who = (i + static_cast<size_t>(round)) % participants.size();
      times[who].push_back(at::get_num_threads() == 1 ? processor_seconds(participants[who].step)
                                                      : seconds(participants[who].step));
    }
  }
  const double flops = 18.0 * static_cast<double>(s.tokens * s.chosen) * static_cast<double>(s.width * s.features);
  fmt::print("| {} | {} tokens, {} -> {}, {} of {}, {:.1f} |", c10::toString(type), s.tokens, s.width, s.features,
             s.chosen, s.experts, s.unevenness);
  fmt::print(" {:.0f} |", flops / *std::min_element(times[0].begin(), times[0].end()) / 1e9);
  for (size_t i = 1; i < participants.size(); ++i) {
    std::vector<double> ratios;
    for (size_t round = 0; round < times[0].size(); ++round) ratios.push_back(times[i][round] / times[0][round]);
    fmt::print(" {}: {} |", participants[i].name, quartiles(ratios));
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "arguments: SEED ROUNDS THREADS fp32|bf16 [wide|narrow|both] [SHAPES]\n");
    return 2;
  }
  terrace::memory::keep_host_memory();
  const int64_t seed = std::atol(argv[1]);
  at::set_num_threads(std::atoi(argv[3]));
  const at::ScalarType type = argv[4] == std::string("fp32") ? at::kFloat : at::kBFloat16;
  const std::string which = argc > 5 ? argv[5] : "both";
  const int shapes = argc > 6 ? std::atoi(argv[6]) : 2;
  fmt::print(
      "| type | tokens, width -> features, experts a token, unevenness | GFLOP/s of ours | times as long as ours .. "
      "|\n");
  std::mt19937 draw(static_cast<uint32_t>(seed));
  for (int i = 0; i < shapes; ++i) {
    for (const bool narrow : {false, true}) {
      const Shape shape = drawn_shape(draw, narrow);
      if (which == "both" || (which == "narrow") == narrow) compare(shape, type, seed + i, std::atoi(argv[2]));
    }
  }
}
