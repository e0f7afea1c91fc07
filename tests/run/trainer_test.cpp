// Tests what a step does: accumulation, recompute, skipped updates, loss scaling, numbers that are not finite.
#include "terrace/train/trainer.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "terrace/base/files/file.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/hooks/hooks.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

class TrainerTest : public train::TinyRun {
 protected:
  // Runs two configurations that must agree bit for bit.
  void expect_same_run(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    train::Trainer first(tiny_config(a), {}), second(tiny_config(b), {});
    EXPECT_EQ(take_steps(first, 4), take_steps(second, 4));
    expect_equal(snapshot(first), snapshot(second));
  }

  static void poison(train::Trainer& trainer, const std::string& name) {
    const at::NoGradGuard no_grad;
    for (nn::Parameter* parameter : trainer.model().parameters()) {
      if (parameter->name == name) parameter->value.fill_(-std::numeric_limits<float>::quiet_NaN());
    }
  }
};

TEST_F(TrainerTest, LearnsTheCorpus) {
  train::Trainer trainer(tiny_config({"train.steps=120"}), {});
  const std::vector<double> losses = take_steps(trainer, 120);
  EXPECT_NEAR(losses.front(), std::log(61.0), 0.2);  // a new model gives all tokens the same probability
  // The next token is one of three, so a loss of ln 3 can be reached within a document, far below half of the first
  // loss.
  EXPECT_LT(losses.back(), losses.front() / 2);
  EXPECT_LT(trainer.evaluate(0).value().all.loss, std::log(61.0) * 0.75);
}

TEST_F(TrainerTest, RecomputeChangesNoBit) {
  for (const char* precision : {"train.precision=fp32", "train.precision=bf16"}) {
    for (const char* recompute : {"train.recompute=selective", "train.recompute=full"}) {
      expect_same_run({precision, "model.dropout=0.1"}, {precision, "model.dropout=0.1", recompute});
    }
  }
}

TEST_F(TrainerTest, ARunRepeatsExactlyAndDependsOnTheSeed) {
  expect_same_run({"model.dropout=0.1"}, {"model.dropout=0.1"});
  train::Trainer first(tiny_config(), {}), second(tiny_config({"train.seed=2"}), {});
  EXPECT_NE(take_steps(first, 1), take_steps(second, 1));
}

TEST_F(TrainerTest, AccumulationIsTheWholeBatchWithinRounding) {
  // One micro-batch or four have the same samples and dropout; only the order of the sums differs. With epsilon at 1e-4
  // Adam does not enlarge the rounding errors of gradients that are zero in exact arithmetic.
  const std::vector<std::string> common = {"optimizer.epsilon=1e-4", "model.dropout=0.2"};
  auto with = [&](const char* micro_batch) {
    std::vector<std::string> overrides = common;
    overrides.emplace_back(micro_batch);
    return overrides;
  };
  train::Trainer whole(tiny_config(with("train.micro_batch=4")), {}),
      parts(tiny_config(with("train.micro_batch=1")), {});
  take_steps(whole, 3);
  take_steps(parts, 3);
  const auto a = snapshot(whole), b = snapshot(parts);
  for (const auto& [name, tensor] : a) {
    if (!name.starts_with("weights/")) continue;
    // Three steps with sums of 64 tokens in fp32: a relative error of 2^-24 * 64 * 3 on weights of size up to 1.
    EXPECT_LT(tensor.sub(b.at(name)).abs().max().item<double>(), std::ldexp(64.0 * 3, -24)) << name;
  }
}

TEST_F(TrainerTest, AnFp16OverflowSkipsTheStepAndTheScaleRecovers) {
  train::Trainer trainer(tiny_config({"train.precision=fp16", "train.initial_loss_scale=16777216",
                                      "train.loss_scale_window=2", "train.steps=100"}),
                         {});
  const auto before = snapshot(trainer);
  const train::StepReport first = trainer.step();
  ASSERT_FALSE(first.applied) << "no overflow at a scale of 2^24";
  expect_equal(before, snapshot(trainer));
  EXPECT_EQ(trainer.optimizer().count, 0);
  double lowest = first.loss_scale, last = first.loss_scale;
  int64_t applied = 0, recovered = 0;
  for (int64_t step = 1; step < 60; ++step) {
    const train::StepReport report = trainer.step();
    applied += report.applied;
    recovered += report.loss_scale > last;
    last = report.loss_scale;
    lowest = std::min(lowest, last);
  }
  EXPECT_LT(lowest, 16777216.0);
  EXPECT_GT(recovered, 0);
  EXPECT_GT(applied, 20);
  EXPECT_EQ(trainer.optimizer().count, applied);
}

TEST_F(TrainerTest, StopsAtANumberThatIsNotFiniteAndSaysWhereAndWhatToDo) {
  train::Trainer trainer(tiny_config(), {});
  take_steps(trainer, 2);
  poison(trainer, "blocks.1.ffn.second.bias");
  const auto error_of_step = [&] {
    try {
      trainer.step();
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  using testing::HasSubstr;
  // The embedding is the first parameter of the model with a bad gradient.
  EXPECT_THAT(error_of_step(), testing::AllOf(HasSubstr("step 3: the loss is nan and the gradient norm nan"),
                                              HasSubstr("embedding.tokens.weight"),
                                              HasSubstr("there is no checkpoint yet. Start again "
                                                        "with a lower optimizer.learning_rate")));
  train::Trainer healthy(tiny_config(), {});
  const auto path = checkpoint::save(folder_ / "run", healthy.state(), {});
  EXPECT_THAT(error_of_step(), HasSubstr("last good checkpoint: " + path.string() +
                                         ". Continue from it with --resume and a lower optimizer.learning_rate"));
}

TEST_F(TrainerTest, SkipsAStepThatIsNotFiniteIfSoSet) {
  train::Trainer trainer(tiny_config({"train.on_nan=skip"}), {});
  take_steps(trainer, 2);
  nn::Parameter& last = *trainer.model().parameters().back();
  const at::Tensor kept = last.value.detach().clone();
  {
    const at::NoGradGuard no_grad;
    last.value.fill_(std::numeric_limits<float>::quiet_NaN());
  }
  const train::StepReport bad = trainer.step();
  EXPECT_FALSE(bad.applied);
  EXPECT_EQ(trainer.optimizer().count, 2);
  {
    const at::NoGradGuard no_grad;
    last.value.copy_(kept);
  }
  const train::StepReport good = trainer.step();
  EXPECT_TRUE(good.applied);
  EXPECT_TRUE(std::isfinite(good.metrics.loss));
}

TEST_F(TrainerTest, SkipsTheDataOfSkippedSteps) {
  train::Trainer all(tiny_config(), {}), skipping(tiny_config({"train.skip_steps=[[1, 2]]"}), {});
  const auto before = snapshot(skipping);
  EXPECT_TRUE(skipping.step().skipped);
  EXPECT_TRUE(skipping.step().skipped);
  expect_equal(before, snapshot(skipping));
  EXPECT_EQ(skipping.items_done(), 2 * 4 * 16);
  // Step 3 has the same samples as without skipped steps, so an untrained model gives the loss of those samples.
  const double loss = skipping.step().metrics.loss;
  train::Trainer third(
      tiny_config({"train.skip_steps=[[1, 2]]", "optimizer.learning_rate=1e-30", "optimizer.weight_decay=0.0"}), {});
  take_steps(third, 2);
  EXPECT_EQ(third.step().metrics.loss, loss);
  EXPECT_NE(take_steps(all, 1).front(), loss);
}

TEST_F(TrainerTest, RampsTheBatchUp) {
  train::Trainer trainer(tiny_config({"train.ramp_start=2", "train.ramp_increment=2", "train.ramp_samples=4"}), {});
  std::vector<int64_t> tokens;
  for (int step = 0; step < 4; ++step) tokens.push_back(trainer.step().metrics.items / 16);
  EXPECT_EQ(tokens, (std::vector<int64_t>{2, 4, 8, 12}));
}

TEST_F(TrainerTest, HooksWriteMetricsEvaluationsAndCheckpoints) {
  const config::Config config =
      tiny_config({"train.evaluate_every=4", "checkpoint.every=3", "checkpoint.keep=2", "train.steps=8"});
  train::Trainer trainer(config, {1e9, "a peak for the test"});
  add_standard_hooks(trainer);
  trainer.run();
  const observe::LossHistory losses = observe::read_losses(config.checkpoint.folder);
  EXPECT_EQ(losses.training.size(), 8u);
  ASSERT_EQ(losses.validation.size(), 2u);
  EXPECT_EQ(losses.validation.back().first, 8.0);
  EXPECT_EQ(losses.validation.back().second, trainer.evaluate(0).value().all.loss);
  std::vector<std::string> names;
  for (const auto& path : checkpoint::list(config.checkpoint.folder)) names.push_back(path.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"step_00000006", "step_00000008"}));
}

TEST_F(TrainerTest, MfuIsTheShareOfThePeakItWasGiven) {
  constexpr double peak = 1e15;  // no step reaches it; a faster step would become the peak itself
  const train::StepReport report = train::Trainer(tiny_config(), {peak, "a peak for the test"}).step();
  // 72 B s l h^2 (1 + s/6h) + 6 B s h V with B = 4, s = 16, l = 2, h = 24, V = 64.
  const double flops = 72.0 * 4 * 16 * 2 * 24 * 24 * (1 + 16.0 / (6 * 24)) + 6.0 * 4 * 16 * 24 * 64;
  EXPECT_NEAR(report.metrics.mfu * report.metrics.step_seconds * peak, flops, flops * 1e-12);
}

}  // namespace
}  // namespace terrace::run
