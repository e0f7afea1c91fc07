// Times causal attention of one sequence computed by the parts that the two ranks of a context of 2 compute, summed
// over both, beside joint_attention() over the whole, in turns: forward, and forward and backward. Each rank has a head
// and a tail stripe of four, which meet their own keys and those of the other rank in four calls. Usage:
// bench_ops_partial_attention [THREADS] [ROUNDS] [TOKENS] [TYPE] [HEAD_DIM].
#include "terrace/ops/attention/partial_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace {

using namespace terrace::ops;

// With one thread the time of the processor, since others use the machine too.
double now() {
  timespec time{};
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename Work>
double seconds(const Work& work) {
  const double began = now();
  work();
  return now() - began;
}

// In quarters of the sequence.
struct Call {
  int64_t queries, key_begin, key_end;
};
// Rank 0 has quarters 0 and 3, rank 1 has 1 and 2, whose keys lie together.
const std::vector<Call> calls_of_rank[] = {{{0, 0, 1}, {3, 0, 1}, {3, 1, 3}, {3, 3, 4}},
                                           {{1, 1, 2}, {2, 1, 3}, {1, 0, 1}, {2, 0, 1}}};

// The times of all rounds.
struct Times {
  std::vector<double> forward, both;
  void add(double forward_seconds, double backward_seconds) {
    forward.push_back(forward_seconds);
    both.push_back(forward_seconds + backward_seconds);
  }
};

double fastest(const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); }

// The median over the rounds of the time of the whole over that of its parts.
double median_ratio(const std::vector<double>& whole, const std::vector<double>& parts) {
  std::vector<double> ratios;
  for (size_t round = 0; round < whole.size(); ++round) ratios.push_back(whole[round] / parts[round]);
  std::nth_element(ratios.begin(), ratios.begin() + ratios.size() / 2, ratios.end());
  return ratios[ratios.size() / 2];
}

void print(const char* what, const std::vector<double>& whole, const std::vector<double>& parts) {
  fmt::print("  {:20} {:7.3f} s whole, {:7.3f} s in parts, ratio of fastest {:.3f}, median of ratios {:.3f}\n", what,
             fastest(whole), fastest(parts), fastest(whole) / fastest(parts), median_ratio(whole, parts));
}

class Ranks {
 public:
  Ranks(const HeadLayout& layout, const at::Tensor& joint, const at::Tensor& upstream)
      : layout_(layout), joint_(joint), upstream_(upstream), quarter_(joint.size(1) / 4) {}

  void forward() {
    keys_values_ = keys_and_values(joint_, layout_);
    running_ = empty_context(joint_, layout_);
    for (const auto& calls : calls_of_rank) {
      for (const Call& call : calls) {
        add_attention(part(call), {queries(running_.context, 1, call), queries(running_.log_sums, 2, call)});
      }
    }
    context_ = final_context(running_, joint_.scalar_type());
  }

  void backward() {
    const at::Tensor products = context_products(context_, upstream_, layout_);
    const PartialGradients sums{
        at::zeros_like(running_.context),
        at::zeros({joint_.size(0), joint_.size(1), layout_.groups, 2, layout_.head_dim}, products.options())};
    for (const auto& calls : calls_of_rank) {
      for (const Call& call : calls) {
        add_attention_gradients(part(call), queries(running_.log_sums, 2, call), queries(products, 2, call),
                                queries(upstream_, 1, call),
                                {queries(sums.queries, 1, call), keys(sums.keys_values, call)});
      }
    }
    const at::Tensor gradient = at::empty_like(joint_);
    write_query_gradients(sums.queries, layout_, gradient);
    write_key_value_gradients(sums.keys_values, layout_, gradient);
  }

 private:
  at::Tensor queries(const at::Tensor& tensor, int64_t dim, const Call& call) const {
    return tensor.narrow(dim, call.queries * quarter_, quarter_);
  }
  at::Tensor keys(const at::Tensor& tensor, const Call& call) const {
    return tensor.narrow(1, call.key_begin * quarter_, (call.key_end - call.key_begin) * quarter_);
  }
  PartialAttention part(const Call& call) const {
    return {.layout = layout_,
            .queries = {queries(joint_, 1, call), call.queries * quarter_},
            .keys = {keys(keys_values_, call), call.key_begin * quarter_}};
  }

  HeadLayout layout_;
  at::Tensor joint_, upstream_, keys_values_, context_;
  int64_t quarter_;
  RunningContext running_;
};

void measure(at::ScalarType type, int64_t head_dim, int64_t tokens, int rounds) {
  const HeadLayout layout{.groups = 2, .queries_per_group = 4, .head_dim = head_dim};
  const at::Tensor joint = at::randn({1, tokens, layout.columns()}).to(type);
  const at::Tensor upstream = at::randn({1, tokens, layout.heads() * head_dim}).to(type);
  at::Tensor leaf = joint.clone().requires_grad_(true);
  Ranks ranks(layout, joint, upstream);
  Times whole, parts;
  const auto measure_whole = [&] {
    at::Tensor context;
    const double forward = seconds([&] { context = joint_attention(leaf, layout, nullptr, {}, {}); });
    whole.add(forward, seconds([&] { torch::autograd::backward({context}, {upstream}); }));
    leaf.mutable_grad().reset();
  };
  const auto measure_parts = [&] {
    const double forward = seconds([&] { ranks.forward(); });
    parts.add(forward, seconds([&] { ranks.backward(); }));
  };
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) measure_whole();
    measure_parts();
    if (round % 2 == 1) measure_whole();
  }
  fmt::print("{} head_dim {}\n", c10::toString(type), head_dim);
  print("forward", whole.forward, parts.forward);
  print("forward and backward", whole.both, parts.both);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::stoi(argv[1]) : 1);
  const int rounds = argc > 2 ? std::stoi(argv[2]) : 3;
  const int64_t tokens = argc > 3 ? std::stoll(argv[3]) : 8192;
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    if (argc > 4 && argv[4] != std::string(c10::toString(type))) continue;
    for (int64_t head_dim : {64, 128}) {
      if (argc <= 5 || std::stoll(argv[5]) == head_dim) measure(type, head_dim, tokens, rounds);
    }
  }
}
