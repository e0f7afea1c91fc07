// Compares the closed form of a step with noise with values worked out by hand and with drawn steps.
#include "terrace/plan/noise/expected_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "terrace/plan/noise/clock_moments.h"
#include "terrace/plan/noise/drawn_steps.h"
#include "tests/plan/noisy_steps.h"

namespace terrace::plan {
namespace {

TEST(ExpectedStep, OfOneComputationIsThatOfTheSlowestRank) {
  const machine::Noise noise{.instruction_spread = 0.1};
  EXPECT_EQ(expected_step(one_computation(noise)).seconds, 1);
  for (const auto& [ranks, largest] : {std::pair<int64_t, double>{2, 0.56419}, {8, 1.42360}}) {
    const ExpectedStep of_tensor = expected_step(one_computation(noise, ranks));
    EXPECT_NEAR(of_tensor.seconds, 1 + 0.1 * largest, 1e-5);
    EXPECT_NEAR(of_tensor.costs.tensor_seconds, 0.1 * largest, 1e-5);
    const ExpectedStep of_replicas = expected_step(one_computation(noise, 1, ranks));
    EXPECT_NEAR(of_replicas.seconds, 1 + 0.1 * largest, 1e-5);
    EXPECT_NEAR(of_replicas.costs.replica_seconds, 0.1 * largest, 1e-5);
    EXPECT_NEAR(of_replicas.costs.total(), of_replicas.seconds - 1, 1e-12);
  }
}

// At least one of 6 devices is slow with probability 1 - 0.9^6, and the step then takes half as long again.
TEST(ExpectedStep, HasASlowDeviceAsOftenAsTheMachineSays) {
  const machine::Noise noise{.slow_devices = 0.1, .slow_by = 0.5};
  for (const auto& [tensor, replicas] : {std::pair<int64_t, int64_t>{6, 1}, {1, 6}, {2, 3}}) {
    EXPECT_NEAR(expected_step(one_computation(noise, tensor, replicas)).seconds, 1 + 0.5 * (1 - std::pow(0.9, 6)), 1e-3)
        << tensor << " " << replicas;
  }
}

// A device pauses 0.01 times in 1 s; of 100 replicas at least one does with probability 1 - e^-1, and two pauses of one
// replica are rare: 100 * 0.01^2 / 2 = 0.5%.
TEST(ExpectedStep, HasPausesAsOftenAsTheMachineSays) {
  const machine::Noise noise{.pause_every_seconds = 100, .pause_seconds = 0.5};
  EXPECT_NEAR(expected_step(one_computation(noise)).seconds, 1 + 0.5 * 0.01, 1e-4);
  EXPECT_NEAR(expected_step(one_computation(noise, 1, 100)).seconds, 1 + 0.5 * (1 - std::exp(-1)), 0.005);
}

// One of two replicas pauses with probability 1 - e^-0.002, for a hundred times as long as the step.
TEST(ExpectedStep, HasPausesThatAreFarLongerThanTheStep) {
  const machine::Noise noise{.pause_every_seconds = 1000, .pause_seconds = 100};
  EXPECT_NEAR(expected_step(one_computation(noise, 1, 2)).seconds, 1 + 100 * (1 - std::exp(-0.002)), 0.001);
}

TEST(ExpectedStep, WithoutNoiseIsTheStep) {
  for (const NoisyLayout& layout : {NoisyLayout{}, NoisyLayout{2, 4, 2, 8}, NoisyLayout{8, 1, 8, 2}}) {
    const NoisyStep step = step_of(layout);
    EXPECT_NEAR(expected_step(step).seconds, step.noiseless_seconds, 1e-9 * step.noiseless_seconds);
  }
}

// Two stages whose clocks are independent with a mean of 1 and a standard deviation of 0.1 meet at a barrier: the later
// one is 0.5642 standard deviations later on average, with a variance of 1 - 1 / pi. A message of the first one, which
// begins 2 later, is 2 s under way.
TEST(StepMoments, AreThoseOfTheLaterOfTwoStages) {
  schedule::StepGraph graph{.num_stages = 2, .num_slots = 1};
  graph.computations = {1.0};
  graph.operations = {{.stage = 0, .first = 0, .count = 1},
                      {.stage = 1, .first = 0, .count = 1},
                      {.kind = schedule::StepOperation::Kind::barrier},
                      {.kind = schedule::StepOperation::Kind::transfer, .stage = 0, .out = 0, .seconds = 2},
                      {.stage = 1, .slots = {0, -1}, .ends_slot = {true, false}, .first = 0, .count = 1}};
  const Moments one{1, 0.01}, none;
  const Moments end = step_moments(graph, {one, one, none, none, one});
  EXPECT_NEAR(end.mean, 1 + 0.1 * 0.56419 + 2 + 1, 1e-6);
  EXPECT_NEAR(end.variance, 0.01 * (1 - 1 / 3.14159265) + 0.01, 1e-6);
}

struct NoiseOfTime {
  const char* name;
  double spread;
  double pause_every, pause;  // in times of a stage's average computation
  double slow_devices, slow_by;
};

class Agreement : public testing::TestWithParam<NoiseOfTime> {};

// Draws are so many that the standard error of their mean is far below 2%.
TEST_P(Agreement, OfDrawnAndExpectedStepsIsWithin2Percent) {
  for (const int64_t tensor : {1, 2, 8}) {
    for (const int64_t pipeline : {1, 2, 5, 16}) {
      for (const int64_t data : {1, 7, 64}) {
        for (const int64_t micro_batches : {1, 6, 32}) {
          const NoisyLayout layout{tensor, pipeline, data, micro_batches};
          NoisyStep step = step_of(layout);
          const double average = step.noiseless_seconds / static_cast<double>(micro_batches + pipeline - 1) / 64;
          step.noise = {.instruction_spread = GetParam().spread,
                        .pause_every_seconds = GetParam().pause_every * average,
                        .pause_seconds = GetParam().pause * average,
                        .slow_devices = GetParam().slow_devices,
                        .slow_by = GetParam().slow_by};
          const double expected = expected_step(step).seconds;
          const double drawn = draw_steps(step, std::max<int64_t>(40, 10'000 / data / micro_batches), 1).mean_seconds;
          EXPECT_NEAR(expected, drawn, 0.02 * drawn)
              << "tensor " << tensor << ", pipeline " << pipeline << ", data " << data << ", " << micro_batches
              << " micro-batches, without noise " << step.noiseless_seconds;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Noises, Agreement,
    testing::Values(NoiseOfTime{"small_spread", 0.02, 0, 0, 0, 0}, NoiseOfTime{"large_spread", 0.2, 0, 0, 0, 0},
                    NoiseOfTime{"short_pauses", 0, 400, 2, 0, 0}, NoiseOfTime{"long_pauses", 0.01, 4000, 10, 0, 0},
                    NoiseOfTime{"few_slow", 0.01, 0, 0, 0.001, 0.1}, NoiseOfTime{"many_slow", 0, 0, 0, 0.05, 0.2},
                    NoiseOfTime{"all", 0.05, 2000, 10, 0.001, 0.2}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace terrace::plan
