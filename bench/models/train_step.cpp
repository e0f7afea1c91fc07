// Times forward and backward of a GPT step, wide (4 layers of 768) or deep (12 of 256): tokens per second of the
// fastest step. The same in PyTorch: bench/models/train_step.py with the same arguments.
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <set>
#include <string>

#include "terrace/models/model.h"

namespace {

using namespace terrace;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of all threads; what to compare on a machine that others use too, with OMP_NUM_THREADS=1.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

config::ModelConfig config_of(const std::set<std::string>& words) {
  config::ModelConfig config;
  const bool deep = words.contains("deep");
  config.layers = deep ? 12 : 4;
  config.width = deep ? 256 : 768;
  config.heads = config.kv_heads = deep ? 8 : 12;
  config.head_dim = config.width / config.heads;
  config.ffn_width = 4 * config.width;
  config.sequence = 256;
  config.vocabulary = 8192;
  if (words.contains("dropout")) config.dropout = 0.1;
  return config;
}

}  // namespace

int main(int argc, char** argv) {
  const std::set<std::string> words(argv + 1, argv + argc);
  const config::ModelConfig config = config_of(words);
  const int64_t batch_size = words.contains("deep") ? 16 : 8, tokens = batch_size * config.sequence;
  const auto model = models::build_model(config, {at::kCPU, words.contains("bf16") ? at::kBFloat16 : at::kFloat});
  const auto parameters = model->parameters();
  nn::initialize(parameters, 1);
  nn::allocate_gradients(parameters, at::kFloat);
  models::Batch batch;
  batch.tokens = at::randint(0, config.vocabulary, {batch_size, config.sequence}, at::kLong);
  batch.targets = at::randint(0, config.vocabulary, {batch_size, config.sequence}, at::kLong);
  batch.samples = at::arange(batch_size, at::kLong);
  double best_wall = 1e30, best_cpu = 1e30;
  for (int64_t step = 0; step < 10; ++step) {
    const double wall = wall_seconds(), cpu = cpu_seconds();
    const models::Pass pass{.training = true, .step = step, .gradient_scale = 1.0 / static_cast<double>(tokens)};
    nn::zero_gradients(parameters);
    at::Tensor hidden;
    for (int64_t unit = 0; unit + 1 < model->num_units(); ++unit) {
      hidden = model->forward_unit(unit, hidden, batch, pass);
    }
    torch::autograd::backward({model->loss(hidden, batch, pass)}, {});
    best_wall = std::min(best_wall, wall_seconds() - wall);
    best_cpu = std::min(best_cpu, cpu_seconds() - cpu);
  }
  fmt::print("terrace: {:.0f} tokens/s, {:.1f} ms of CPU time a step\n", static_cast<double>(tokens) / best_wall,
             1e3 * best_cpu);
}
