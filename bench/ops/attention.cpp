// Times attention from the joint projection to the context, and its gradient, beside torch's
// scaled_dot_product_attention with the split that it needs, in turns, and a matrix product in the same run. Usage:
// bench_ops_attention [THREADS] [SECONDS] [SHAPE]. FLOP are 4 hd forward and 10 hd backward for each pair of a query
// and a key that it sees.
#include "terrace/ops/attention/attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mkldnn_linear.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/to_mkldnn.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace terrace;

double now() {
  timespec time{};
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Times {
  std::vector<double> seconds;
  void add(const std::function<void()>& run) {
    const double began = now();
    run();
    seconds.push_back(now() - began);
  }
  double fastest() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double median() {
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    return seconds[seconds.size() / 2];
  }
};

struct Shape {
  const char* name;
  int64_t batch, heads, head_dim, length;
  ops::Visibility visibility = ops::Visibility::causal;
  int64_t pairs() const {
    return batch * heads * length * (visibility == ops::Visibility::causal ? length + 1 : 2 * length) / 2;
  }
};

void measure(const Shape& shape, at::ScalarType type, double seconds) {
  const ops::HeadLayout layout{shape.heads, 1, shape.head_dim};
  const auto options = at::TensorOptions().dtype(at::kFloat);
  at::Tensor joint = at::randn({shape.batch, shape.length, layout.columns()}, options).to(type).requires_grad_(true);
  const auto forward = [&](ops::AttentionChoice choice) {
    return ops::joint_attention(joint, layout, nullptr, {}, {}, choice, shape.visibility);
  };
  const at::Tensor upstream = at::ones_like(forward(ops::AttentionChoice::fastest)).detach();
  const at::Tensor a = at::randn({2048, 768}, options).to(type), b = at::randn({768, 3072}, options).to(type);
  // Products of fp32 are those of the faster library: MKL's is slow on other makers' processors.
  const at::Tensor dense_a = a.to(at::kFloat).to_mkldnn(), dense_b = b.t().to(at::kFloat).contiguous().to_mkldnn();
  Times forwards[2], both[2], product;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until || product.seconds.size() < 6) {
    for (int which = 0; which < 2; ++which) {
      const auto choice = which == 0 ? ops::AttentionChoice::fastest : ops::AttentionChoice::torch;
      {
        at::NoGradGuard no_grad;
        forwards[which].add([&] { forward(choice); });
      }
      both[which].add([&] { torch::autograd::backward({forward(choice)}, {upstream}); });
      joint.mutable_grad().reset();
    }
    at::NoGradGuard no_grad;
    product.add([&] { at::matmul(a, b); });
    if (type == at::kFloat) product.add([&] { at::mkldnn_linear(dense_a, dense_b); });
  }
  const auto flops = static_cast<double>(4 * shape.head_dim * shape.pairs());
  const double rate = 2.0 * 2048 * 768 * 3072 / product.fastest() / 1e9;
  fmt::print("{} {}: product {:.0f} GFLOP/s\n", shape.name, c10::toString(type), rate);
  const auto line = [&](const char* name, Times* times, double work) {
    for (int which = 0; which < 2; ++which) {
      const double fastest = times[which].fastest();
      fmt::print("  {:16} {:8} fastest {:8.3f} ms, median {:8.3f} ms, {:6.1f} GFLOP/s, {:.2f} of the product\n", name,
                 which == 0 ? "terrace" : "torch", 1e3 * fastest, 1e3 * times[which].median(), work / fastest / 1e9,
                 work / fastest / 1e9 / rate);
    }
    fmt::print("  {:16} ratio of fastest {:.2f}, of medians {:.2f}\n", name, times[1].fastest() / times[0].fastest(),
               times[1].median() / times[0].median());
  };
  line("forward", forwards, flops);
  line("forward+backward", both, 3.5 * flops);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::stoi(argv[1]) : 2);
  const double seconds = argc > 2 ? std::stod(argv[2]) : 4;
  const Shape shapes[] = {{"A", 8, 12, 64, 256},
                          {"B", 16, 8, 32, 256},
                          {"C", 1, 12, 64, 2048},
                          {"narrow", 13, 6, 52, 200},
                          {"wide", 2, 6, 100, 600},
                          {"A_all", 8, 12, 64, 256, ops::Visibility::all},
                          {"B_all", 16, 8, 32, 256, ops::Visibility::all},
                          {"C_all", 1, 12, 64, 2048, ops::Visibility::all},
                          {"image", 8, 12, 64, 197, ops::Visibility::all},
                          {"large_image", 2, 12, 64, 1025, ops::Visibility::all},
                          {"small_image", 32, 3, 64, 65, ops::Visibility::all}};
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Shape& shape : shapes) {
      if (argc < 4 || std::string(argv[3]) == shape.name) measure(shape, type, seconds);
    }
  }
}
