// Compares drawn steps with values worked out by hand, and with the step without noise.
#include "terrace/plan/noise/drawn_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "terrace/plan/noise/noise_report.h"
#include "tests/plan/noisy_steps.h"

namespace terrace::plan {
namespace {

constexpr int64_t many = 20'000;
// Five standard errors of the mean of so many draws of a variable with this standard deviation.
double tolerance(double deviation) { return 5 * deviation / std::sqrt(static_cast<double>(many)); }

TEST(DrawnSteps, OfOneDeviceKeepTheMean) {
  const DrawnSteps drawn = draw_steps(one_computation({.instruction_spread = 0.1}), many, 1);
  ASSERT_EQ(drawn.seconds.size(), many);
  EXPECT_TRUE(std::ranges::is_sorted(drawn.seconds));
  EXPECT_NEAR(drawn.mean_seconds, 1, tolerance(0.1));
  // 5% of a normal distribution are more than 1.645 standard deviations below its mean.
  EXPECT_NEAR(drawn.quantile(0.5), 1, 0.005);
  EXPECT_NEAR(drawn.quantile(0.05), 1 - 0.1645, 0.01);
  EXPECT_NEAR(drawn.quantile(0.95), 1 + 0.1645, 0.01);
}

// The largest of n standard normal variables is 0.5642 of 2 and 1.4236 of 8 on average.
TEST(DrawnSteps, WaitForTheSlowestRankAndForTheSlowestReplica) {
  for (const auto& [ranks, largest] : {std::pair<int64_t, double>{2, 0.5642}, {8, 1.4236}}) {
    const DrawnSteps of_tensor = draw_steps(one_computation({.instruction_spread = 0.1}, ranks), many, 1);
    EXPECT_NEAR(of_tensor.mean_seconds, 1 + 0.1 * largest, tolerance(0.1));
    EXPECT_NEAR(of_tensor.costs.tensor_seconds, 0.1 * largest, 1e-5);
    EXPECT_NEAR(of_tensor.costs.stages_seconds, 0, tolerance(0.1));
    EXPECT_EQ(of_tensor.costs.replica_seconds, 0);
    const DrawnSteps of_replicas = draw_steps(one_computation({.instruction_spread = 0.1}, 1, ranks), many, 1);
    EXPECT_NEAR(of_replicas.mean_seconds, 1 + 0.1 * largest, tolerance(0.1));
    EXPECT_NEAR(of_replicas.costs.replica_seconds, 0.1 * largest, tolerance(0.1));
    EXPECT_NEAR(of_replicas.costs.total(), of_replicas.mean_seconds - 1, 1e-12);
  }
}

// A device that pauses each 4 s on average for 0.25 s does so 0.25 times in 1 s: 1.0625 s on average, and of 8 tensor
// ranks, which pause at the same time, at least one does with probability 1 - e^-2.
TEST(DrawnSteps, PauseAsOftenAsTheMachineSays) {
  const machine::Noise noise{.pause_every_seconds = 4, .pause_seconds = 0.25};
  const DrawnSteps alone = draw_steps(one_computation(noise), many, 1);
  EXPECT_NEAR(alone.mean_seconds, 1 + 0.25 * 0.25, tolerance(0.25 * 0.5));
  EXPECT_EQ(alone.seconds.front(), 1);
  const DrawnSteps group = draw_steps(one_computation(noise, 8), many, 1);
  // The rank that pauses most often counts: P(at most k pauses of each rank) = (e^-0.25 (1 + .. + 0.25^k / k!))^8.
  double most = 0, of_one = 0, term = std::exp(-0.25);
  for (int k = 0; k < 12; ++k, term *= 0.25 / k) {
    of_one += term;
    most += 1 - std::pow(of_one, 8);
  }
  EXPECT_NEAR(group.mean_seconds, 1 + 0.25 * most, tolerance(0.25));
}

// A step has a slow device with probability 1 - 0.9^n of n devices, and then takes half as long again.
TEST(DrawnSteps, HaveSlowDevicesAsOftenAsTheMachineSays) {
  const machine::Noise noise{.slow_devices = 0.1, .slow_by = 0.5};
  for (const auto& [tensor, replicas] : {std::pair<int64_t, int64_t>{1, 1}, {4, 1}, {1, 4}, {2, 3}}) {
    const DrawnSteps drawn = draw_steps(one_computation(noise, tensor, replicas), many, 1);
    const double any = 1 - std::pow(0.9, static_cast<double>(tensor * replicas));
    EXPECT_NEAR(drawn.mean_seconds, 1 + 0.5 * any, tolerance(0.25)) << tensor << " " << replicas;
    EXPECT_EQ(drawn.seconds.front(), 1);
    EXPECT_EQ(drawn.seconds.back(), 1.5);
  }
}

TEST(DrawnSteps, DependOnTheSeedAndNotOnTheThreads) {
  NoisyStep step = step_of({.tensor = 2, .pipeline = 4, .data = 3, .micro_batches = 5});
  step.noise = {.instruction_spread = 0.05,
                .pause_every_seconds = 1000,
                .pause_seconds = 10,
                .slow_devices = 0.1,
                .slow_by = 0.2};
  const DrawnSteps drawn = draw_steps(step, 20, 7, 1);
  EXPECT_EQ(draw_steps(step, 20, 7, 4).seconds, drawn.seconds);
  EXPECT_EQ(draw_steps(step, 20, 7).mean_seconds, drawn.mean_seconds);
  EXPECT_NE(draw_steps(step, 20, 8).seconds, drawn.seconds);
}

// Steps without noise take the seconds of the simulation, whatever the machine of the prediction states.
TEST(DrawnSteps, WithoutNoiseTakeTheSecondsOfTheStep) {
  for (const NoisyLayout& layout :
       {NoisyLayout{}, NoisyLayout{2, 4, 2, 8}, NoisyLayout{1, 16, 1, 3}, NoisyLayout{8, 1, 8, 2}}) {
    const NoisyStep step = step_of(layout);
    const DrawnSteps drawn = draw_steps(step, 2, 1);
    EXPECT_EQ(drawn.seconds.front(), drawn.seconds.back());
    EXPECT_NEAR(drawn.mean_seconds, step.noiseless_seconds, 1e-9 * step.noiseless_seconds);
    Target noisy = noisy_target(layout);
    noisy.machine.noise = {.instruction_spread = 0.1, .slow_devices = 0.1, .slow_by = 0.5};
    EXPECT_EQ(predict(noisy_config(layout), noisy).step_seconds,
              predict(noisy_config(layout), noisy_target(layout)).step_seconds);
    EXPECT_EQ(predict(noisy_config(layout), noisy).step_seconds, step.noiseless_seconds);
  }
}

TEST(DrawnSteps, InTextAndJson) {
  DrawnSteps drawn{.mean_seconds = 10.5, .costs = {0.1, 0.2, -0.0001, 0.2001}};
  for (int i = 0; i <= 100; ++i) drawn.seconds.push_back(10 + 0.01 * i);
  EXPECT_EQ(text_of(drawn, 10),
            "101 steps with the machine's noise: median 10.5 s, 90% from 10.1 s to 10.9 s, mean 10.5 s (+5.0%)\n"
            "    devices by themselves              1.0%\n"
            "    waits within tensor groups         2.0%\n"
            "    waits along the pipeline           0.0%\n"
            "    waits among replicas               2.0%\n");
  const Json json = json_of(drawn, 3);
  EXPECT_EQ(json["draws"], 101);
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(json["mean_seconds"], 10.5);
  EXPECT_NEAR(json["low_seconds"].get<double>(), 10.05, 1e-9);
  EXPECT_NEAR(json["median_seconds"].get<double>(), 10.5, 1e-9);
  EXPECT_NEAR(json["high_seconds"].get<double>(), 10.95, 1e-9);
  EXPECT_EQ(json["costs_seconds"]["tensor"], 0.2);
}

}  // namespace
}  // namespace terrace::plan
