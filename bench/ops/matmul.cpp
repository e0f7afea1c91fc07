// Times the products of a linear layer, ours beside torch's, in turns: GFLOP/s of the fastest of many. Gradients of
// weights end in a buffer in fp32, as in training; "alone" compares ours with torch's product in the operands' type.
// Arguments, if any, are fp32 or bf16, and layers as ROWS,INPUTS,OUTPUTS. Memory is kept and in huge pages, as in
// training.
#include "terrace/ops/cpu/matmul.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/ops/seconds.h"
#include "terrace/memory/host_memory.h"

namespace {

using namespace std::string_literals;
using namespace terrace::ops::cpu;

void report(const char* what, double flops, const std::function<void()>& ours, const std::function<void()>& theirs) {
  double fastest_ours = 1e30, fastest_theirs = 1e30;
  for (int round = 0; round < 12; ++round) {
    fastest_ours = std::min(fastest_ours, seconds(ours));
    fastest_theirs = std::min(fastest_theirs, seconds(theirs));
  }
  fmt::print("  {:<16} {:6.1f} {:6.1f}  {:.2f}\n", what, flops / fastest_ours / 1e9, flops / fastest_theirs / 1e9,
             fastest_theirs / fastest_ours);
}

// y = x W^T, dx = dy W and dW += dy^T x of `rows` tokens.
void layer(at::ScalarType type, int64_t rows, int64_t inputs, int64_t outputs) {
  const at::Tensor x = at::randn({rows, inputs}).to(type), w = at::randn({outputs, inputs}).to(type);
  const at::Tensor y = at::randn({rows, outputs}).to(type), dx = at::randn({rows, inputs}).to(type);
  const at::Tensor dw = at::zeros({outputs, inputs});
  fmt::print("{} [{}, {}] -> {}: ours, torch's, ratio\n", at::toString(type), rows, inputs, outputs);
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs);
  report(
      "forward", flops,
      [&] {
        matmul(type, {x.data_ptr(), inputs}, {w.data_ptr(), inputs}, rows, outputs, inputs,
               {.out = y.data_ptr(), .out_stride = outputs, .out_type = type});
      },
      [&] { at::mm(x, w.t()); });
  const at::Tensor inner = at::empty_like(y), bias = at::randn({outputs}).to(type);
  report(
      "forward, GELU", flops,
      [&] {
        matmul(type, {x.data_ptr(), inputs}, {w.data_ptr(), inputs}, rows, outputs, inputs,
               {.kind = Finish::Kind::gelu,
                .out = y.data_ptr(),
                .out_stride = outputs,
                .out_type = type,
                .bias = bias.data_ptr(),
                .inner = inner.data_ptr(),
                .inner_stride = outputs});
      },
      [&] { at::gelu(at::addmm(bias, x, w.t()), "tanh"); });
  report(
      "GELU's slope", flops,
      [&] {
        matmul(type, {dx.data_ptr(), inputs}, {w.data_ptr(), inputs}, rows, outputs, inputs,
               {.kind = Finish::Kind::gelu_backward,
                .out = y.data_ptr(),
                .out_stride = outputs,
                .out_type = type,
                .inner = inner.data_ptr(),
                .inner_stride = outputs});
      },
      [&] { at::gelu_backward(at::mm(dx, w.t()), inner, "tanh"); });
  report(
      "inputs", flops,
      [&] {
        matmul(type, {y.data_ptr(), outputs}, {w.data_ptr(), inputs, false}, rows, inputs, outputs,
               {.out = dx.data_ptr(), .out_stride = inputs, .out_type = type});
      },
      [&] { at::mm(y, w); });
  const auto weights = [&](Finish::Kind kind) {
    matmul(type, {y.data_ptr(), outputs, false}, {x.data_ptr(), inputs, false}, outputs, inputs, rows,
           {.kind = kind, .out = dw.data_ptr(), .out_stride = inputs});
  };
  // The library's gradients are in the type of the operands, so bf16 ones are converted to reach the same fp32 buffer.
  const bool converts = type != at::kFloat;
  report(
      "weights, first", flops, [&] { weights(Finish::Kind::store); },
      [&] {
        at::Tensor out = dw;
        converts ? out.copy_(at::mm(y.t(), x)) : at::mm_out(out, y.t(), x);
      });
  report(
      "weights, added", flops, [&] { weights(Finish::Kind::accumulate); },
      [&] {
        at::Tensor out = dw;
        converts ? out.add_(at::mm(y.t(), x)) : out.addmm_(y.t(), x);
      });
  report(
      "weights, alone", flops, [&] { weights(Finish::Kind::store); }, [&] { at::mm(y.t(), x); });
}

}  // namespace

int main(int argc, char** argv) {
  struct Layer {
    int64_t rows, inputs, outputs;
  };
  const at::NoGradGuard no_grad;
  std::vector<Layer> layers{{2048, 768, 3072},  {2048, 3072, 768}, {2048, 768, 768},  {4096, 256, 1024},
                            {4096, 256, 256},   {128, 768, 8192},  {2600, 312, 900},  {2600, 900, 312},
                            {1024, 2048, 8192}, {1536, 640, 2560}, {1536, 640, 32000}};
  std::vector<at::ScalarType> types{at::kFloat, at::kBFloat16};
  terrace::memory::keep_host_memory();
  int first = 1;
  for (; first < argc && (argv[first] == "fp32"s || argv[first] == "bf16"s); ++first) {
    types = {argv[first] == "fp32"s ? at::kFloat : at::kBFloat16};
  }
  if (argc > first) layers.clear();
  for (int i = first; i < argc; ++i) {
    Layer layer{};
    if (std::sscanf(argv[i], "%ld,%ld,%ld", &layer.rows, &layer.inputs, &layer.outputs) != 3) {
      fmt::print(stderr, "{} is not ROWS,INPUTS,OUTPUTS, such as 2048,768,3072\n", argv[i]);
      return 2;
    }
    layers.push_back(layer);
  }
  for (const at::ScalarType type : types) {
    for (const Layer& each : layers) layer(type, each.rows, each.inputs, each.outputs);
  }
}
