// Compares twenty steps of norm, clipping, schedule and AdamW with torch.optim.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "terrace/comm/threads/threads.h"
#include "terrace/optim/adamw.h"
#include "terrace/optim/gradient_norm.h"
#include "terrace/optim/learning_rate.h"
#include "tests/pytorch/reference.h"

namespace terrace::optim {
namespace {

constexpr int64_t steps = 20;

nn::Parameter parameter_of(const std::string& name, const at::Tensor& value, bool decay) {
  nn::Parameter parameter;
  parameter.name = name;
  parameter.value = value.clone();
  parameter.gradient = at::zeros_like(value);
  parameter.decay = decay;
  return parameter;
}

TEST(AdamWAgainstPyTorch, TwentyStepsWithClippingAndAScheduleAreAsAccurate) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(3);
  testing::Tensors inputs;
  // Gradients near the clipping limit, so that some steps are clipped and some are not; sizes that do not fill a
  // vector.
  for (const auto& [name, size] : {std::pair{"decayed", 1003}, std::pair{"plain", 37}}) {
    inputs[name] = at::randn({size}, generator, at::TensorOptions());
    for (int64_t step = 0; step < steps; ++step) {
      const double scale = step % 2 == 0 ? 0.01 : 0.1;
      inputs[fmt::format("{}.step{}", name, step)] = at::randn({size}, generator, at::TensorOptions()).mul(scale);
    }
  }
  config::OptimizerConfig config{.learning_rate = 1e-2, .warmup_steps = 4, .min_learning_rate = 1e-3};
  Json options = {{"weight_decay", config.weight_decay}, {"beta1", config.beta1}, {"beta2", config.beta2},
                  {"epsilon", config.epsilon},           {"clip", config.clip},   {"rates", Json::array()}};
  for (int64_t step = 1; step <= steps; ++step) options["rates"].push_back(learning_rate(config, steps, step));

  nn::Parameter decayed = parameter_of("decayed", inputs["decayed"], true);
  nn::Parameter plain = parameter_of("plain", inputs["plain"], false);
  const auto world = comm::make_solo_world();
  const auto group = world->connect({.name = "data", .ranks = {0}});
  const std::vector<Shard> shards = whole_parameters({&decayed, &plain});
  AdamW optimizer(shards, config);
  int64_t clipped = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    for (nn::Parameter* parameter : {&decayed, &plain}) {
      parameter->gradient.copy_(inputs[fmt::format("{}.step{}", parameter->name, step - 1)]);
    }
    const double multiplier = clip_multiplier(gradient_norm(shards, *group, *group).norm, config.clip);
    clipped += multiplier < 1;
    optimizer.step(learning_rate(config, steps, step), multiplier);
  }
  EXPECT_EQ(clipped, steps / 2);

  testing::PyTorch& pytorch = testing::shared_pytorch();
  const auto reference = pytorch.run("optim/optim_cases.py", "adamw", options, at::kFloat, inputs);
  testing::ErrorTally tally(at::kFloat);
  testing::add_errors(tally, "adamw", {{"decayed", decayed.value}, {"plain", plain.value}}, reference);
  tally.expect_as_accurate();
}

}  // namespace
}  // namespace terrace::optim
