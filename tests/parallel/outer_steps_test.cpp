// Compares copies that make steps by themselves with the same copies trained one after the other, to the bit, and what
// they send with the bytes of their differences.
#include "terrace/parallel/outer_steps.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/config/names.h"
#include "terrace/config/wire_type.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

using Weights = std::vector<std::vector<float>>;  // by flat buffer

// A copy on one rank of a world of its own.
struct Copy {
  explicit Copy(const Training& training)
      : model(small_model(training, at::kFloat, false)),
        world(comm::make_solo_world()),
        own(*model, *world, small_layout(training, layout, 1), config_of(training, layout),
            sharding_options(layout, at::kFloat)) {}

  // A step with the samples of the copy's part.
  void step(const Training& training, int64_t step, int64_t number, int64_t copies) {
    const int64_t share = training.sequences / copies;
    const models::Pass pass{.seed = 5, .step = step, .gradient_scales = gradient_scales(training, step, copies)};
    own.step.run(
        {batch_of(step, number * share, share, training.model)}, pass, learning_rate,
        [&](const train::StepSums& sums) { return optim::clip_multiplier(sums.gradients.norm, training.clip); });
  }

  config::LayoutConfig layout;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<comm::World> world;
  train::RankModel own;
};

struct Outer {
  int64_t every;
  float rate, momentum;
};

// The weights of copies that are trained one after the other, with plain loops for the outer update.
std::map<std::string, at::Tensor> one_after_the_other(const Training& training, int64_t copies, const Outer& outer) {
  std::vector<std::unique_ptr<Copy>> all;
  for (int64_t number = 0; number < copies; ++number) all.push_back(std::make_unique<Copy>(training));
  const size_t buffers = all.front()->own.optimizer.states().size();
  const auto weights = [&](int64_t copy, size_t buffer) {
    const at::Tensor& master = all[static_cast<size_t>(copy)]->own.optimizer.states()[buffer].master;
    return std::span<float>(master.mutable_data_ptr<float>(), static_cast<size_t>(master.numel()));
  };
  Weights common, momentum;
  for (size_t buffer = 0; buffer < buffers; ++buffer) {
    common.emplace_back(weights(0, buffer).begin(), weights(0, buffer).end());
    momentum.emplace_back(common.back().size(), 0.0F);
  }
  for (int64_t step = 1; step <= training.steps; ++step) {
    for (int64_t number = 0; number < copies; ++number)
      all[static_cast<size_t>(number)]->step(training, step, number, copies);
    if (step % outer.every != 0) continue;
    for (size_t buffer = 0; buffer < buffers; ++buffer) {
      for (size_t i = 0; i < common[buffer].size(); ++i) {
        float& a = common[buffer][i];
        float& b = momentum[buffer][i];
        float sum = a - weights(0, buffer)[i];
        for (int64_t copy = 1; copy < copies; ++copy) sum += a - weights(copy, buffer)[i];
        const float mean = sum / static_cast<float>(copies);
        b = outer.momentum * b + mean;
        a -= outer.rate * (mean + outer.momentum * b);
        for (int64_t copy = 0; copy < copies; ++copy) weights(copy, buffer)[i] = a;
      }
    }
  }
  std::map<std::string, at::Tensor> whole;
  place_own_elements(
      all.front()->model->parameters(), all.front()->own.optimizer,
      [](const optim::AdamW::State& state) { return state.master; }, whole);
  return whole;
}

Training some_training(int64_t copies) {
  return {.model = "gpt2", .steps = 4, .sequences = 4 * copies, .deterministic = false};
}

Outcome trained(const Training& training, int64_t ranks, std::vector<std::string> keys, const Outer& outer) {
  keys.push_back(fmt::format("outer_every={}", outer.every));
  return train(training, {ranks, keys}, {.outer_learning_rate = outer.rate, .outer_momentum = outer.momentum});
}

void expect_same_weights(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
}

TEST(OuterSteps, AreThoseOfCopiesTrainedOneAfterTheOther) {
  for (const int64_t copies : {2, 3}) {
    const Training training = some_training(copies);
    for (const Outer& outer : {Outer{2, 0.7F, 0.9F}, Outer{1, 1.0F, 0.0F}, Outer{4, 0.5F, 0.0F}}) {
      SCOPED_TRACE(fmt::format("{} copies, every {}", copies, outer.every));
      expect_same_weights(trained(training, copies, {}, outer).weights, one_after_the_other(training, copies, outer));
    }
  }
}

// With H = 1, the rate 1 and no momentum, copies with the same data are one rank's training, up to the rounding of
// a - (a - w): AdamW's moments are the same on all, and so are the weights. With other data they differ from training
// that sums gradients, whose moments are those of the mean gradient.
TEST(OuterSteps, OfEachStepKeepTheMeanOfTheCopies) {
  const Training training = some_training(2);
  const auto averaged = one_after_the_other(training, 2, {1, 1.0F, 0.0F});
  Copy first(training), second(training);
  first.step(training, 1, 0, 2);
  second.step(training, 1, 1, 2);
  Training one_step = training;
  one_step.steps = 1;
  const auto after_one = trained(one_step, 2, {}, {1, 1.0F, 0.0F}).weights;
  std::map<std::string, at::Tensor> a, b;
  const auto master = [](const optim::AdamW::State& state) { return state.master; };
  place_own_elements(first.model->parameters(), first.own.optimizer, master, a);
  place_own_elements(second.model->parameters(), second.own.optimizer, master, b);
  for (const auto& [name, value] : after_one) {
    const at::Tensor mean = a.at(name).add(b.at(name)).div(2);
    // Three roundings of numbers of at most the size of the weights, of which the largest are below 2.
    EXPECT_LE(value.sub(mean).abs().max().item<float>(), 3 * 0x1p-23F) << name;
  }
}

// The cuts of a copy change no bit where one sum adds the gradients of a copy: those into stages, and into parts of
// weights, gradients and optimizer states.
TEST(OuterSteps, HaveTheSameBitsAtEveryLayoutOfACopy) {
  Training training = some_training(2);
  training.model = "llama";  // with a head of its own
  training.clip = 0;
  const Outer outer{2, 0.7F, 0.9F};
  const Outcome plain = trained(training, 2, {}, outer);
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{"pipeline=2"}, {"pipeline=2", "schedule=zb-h1"}}) {
    expect_same_weights(trained(training, 4, keys, outer).weights, plain.weights);
  }
  const Outcome cut = trained(training, 4, {"sharding=hybrid", "shard_group=2"}, outer);
  expect_same_weights(trained(training, 4, {"shard_optimizer=2"}, outer).weights, cut.weights);
  expect_same_weights(trained(training, 4, {"shard_gradients=2", "shard_optimizer=2"}, outer).weights, cut.weights);
}

// Each rank sends the differences of its part of the optimizer states after the last step of a round, and nothing else
// to other copies. With two copies it sends half of their payload, and then half of that of the sums.
TEST(OuterSteps, SendTheirDifferencesAlone) {
  Training training = some_training(2);
  for (const config::WireType type : {config::WireType::same, config::WireType::bf16, config::WireType::int8}) {
    for (const int64_t steps : {3, 4}) {
      training.steps = steps;  // the traffic is that of the last one
      const std::string key = fmt::format("outer_type={}", config::name_of(type));
      const Outcome outcome = trained(training, 4, {"sharding=hybrid", "shard_group=2", key}, {2, 0.7F, 0.9F});
      for (size_t rank = 0; rank < 4; ++rank) {
        int64_t bytes = 0;
        const auto group = outcome.traffic[rank].find("replicas");
        if (group != outcome.traffic[rank].end()) {
          for (const auto& [kind, traffic] : group->second) bytes += traffic.bytes;
        }
        const int64_t values = outcome.bytes[rank].weights / 4;  // padded, and cut as the optimizer states are
        EXPECT_EQ(bytes, steps == 4 ? config::wire_bytes(type, values, 4) : 0) << key;
      }
    }
  }
}

// Differences that are rounded to blocks at random stay close to those that are not.
TEST(OuterSteps, MayBeRounded) {
  const Training training = some_training(2);
  const Outer outer{2, 0.7F, 0.9F};
  const Outcome exact = trained(training, 2, {}, outer), rounded = trained(training, 2, {"outer_type=int8"}, outer);
  const Outcome start = trained(
      [&] {
        Training none = training;
        none.steps = 0;
        return none;
      }(),
      2, {}, outer);
  double error = 0, moved = 0;
  for (const auto& [name, value] : exact.weights) {
    error += rounded.weights.at(name).sub(value).square().sum().item<double>();
    moved += start.weights.at(name).sub(value).square().sum().item<double>();
  }
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.01 * moved);
}

}  // namespace
}  // namespace terrace::parallel
