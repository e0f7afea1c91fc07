// Compares the schedules with values worked out by hand and with torch.optim.lr_scheduler.
#include "terrace/optim/learning_rate.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/config/names.h"
#include "tests/paths.h"

namespace terrace::optim {
namespace {

using config::Decay;
using config::OptimizerConfig;

OptimizerConfig schedule(Decay decay, int64_t warmup, int64_t decay_steps, double peak, double lowest) {
  OptimizerConfig config;
  config.schedule = decay;
  config.warmup_steps = warmup;
  config.decay_steps = decay_steps;
  config.learning_rate = peak;
  config.min_learning_rate = lowest;
  return config;
}

std::vector<double> rates(const OptimizerConfig& config, int64_t total_steps, int64_t count) {
  std::vector<double> result;
  for (int64_t step = 1; step <= count; ++step) result.push_back(learning_rate(config, total_steps, step));
  return result;
}

// A rate takes a few operations on numbers up to the peak, each with a relative error of half an ulp; a scheduler that
// computes each rate from the previous one adds that error in each step.
void expect_equal(const std::vector<double>& ours, const std::vector<double>& expected, double peak, int operations) {
  ASSERT_EQ(ours.size(), expected.size());
  const double bound = operations * peak * std::numeric_limits<double>::epsilon();
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], expected[i], bound) << "step " << i + 1;
}

TEST(LearningRate, ConstantWarmsUpLinearlyThenStays) {
  expect_equal(rates(schedule(Decay::constant, 4, 0, 8, 0), 10, 7), {2, 4, 6, 8, 8, 8, 8}, 8, 1);
  expect_equal(rates(schedule(Decay::constant, 0, 0, 8, 0), 10, 3), {8, 8, 8}, 8, 1);
}

TEST(LearningRate, FallsLinearlyFromThePeakAtTheEndOfTheWarmUpToTheMinimum) {
  expect_equal(rates(schedule(Decay::linear, 2, 0, 10, 2), 6, 8), {5, 10, 8, 6, 4, 2, 2, 2}, 10, 4);
  expect_equal(rates(schedule(Decay::linear, 2, 4, 10, 2), 6, 6), {5, 10, 6, 2, 2, 2}, 10, 4);
}

// cos(pi k / 4) for k = 1 .. 4: sqrt(1/2), 0, -sqrt(1/2), -1.
TEST(LearningRate, FallsAsHalfACosine) {
  const double root = std::sqrt(0.5);
  const std::vector<double> expected = {1 + 4 * (1 + root), 5, 1 + 4 * (1 - root), 1, 1};
  expect_equal(rates(schedule(Decay::cosine, 0, 0, 9, 1), 4, 5), expected, 9, 6);
  expect_equal(rates(schedule(Decay::cosine, 2, 4, 9, 1), 100, 5), {4.5, 9, 5, 1, 1}, 9, 6);
}

TEST(LearningRate, WarmUpStableDecayStaysUntilTheLastSteps) {
  expect_equal(rates(schedule(Decay::wsd, 2, 4, 8, 0), 10, 10), {4, 8, 8, 8, 8, 8, 6, 4, 2, 0}, 8, 4);
  expect_equal(rates(schedule(Decay::wsd, 0, 1, 8, 3), 3, 3), {8, 8, 3}, 8, 4);
}

TEST(LearningRate, AWarmUpAsLongAsTheRunEndsAtThePeak) {
  for (const Decay decay : {Decay::cosine, Decay::linear, Decay::constant}) {
    expect_equal(rates(schedule(decay, 3, 0, 6, 1), 3, 3), {2, 4, 6}, 6, 1);
  }
}

// The numbers that a Python program prints.
std::vector<double> run_python(const std::string& program) {
  const std::string command = std::string("'") + tests::python() + "' -c '" + program + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> buffer{};
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) text += buffer.data();
  std::istringstream stream(text);
  std::vector<double> numbers;
  for (double number = 0; stream >> number;) numbers.push_back(number);
  return numbers;
}

// LinearLR warms up from P/5 at the first step to P at the fifth, where the decay begins; wsd combines three
// schedulers.
constexpr const char* torch_program = R"(
import torch
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR
peak, lowest, warmup, total = 3e-4, 2e-5, 5, 20
def rates(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler = make(optimizer)
    for _ in range(total):
        print(repr(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
def after_warmup(decay):
    def make(optimizer):
        first = LinearLR(optimizer, start_factor=1 / warmup, end_factor=1.0, total_iters=warmup - 1)
        later, milestones = decay(optimizer)
        return SequentialLR(optimizer, [first, *later], milestones=[warmup - 1, *milestones])
    return make
def linear(optimizer, steps):
    return LinearLR(optimizer, start_factor=1.0, end_factor=lowest / peak, total_iters=steps)
rates(after_warmup(lambda o: ([CosineAnnealingLR(o, T_max=total - warmup, eta_min=lowest)], [])))
rates(after_warmup(lambda o: ([linear(o, total - warmup)], [])))
rates(lambda o: LambdaLR(o, lambda epoch: min(1.0, (epoch + 1) / warmup)))
rates(after_warmup(lambda o: ([ConstantLR(o, factor=1.0), linear(o, 6)], [total - 6 - 1])))
)";

TEST(LearningRate, EqualsTorchOverTwentySteps) {
  const double peak = 3e-4, lowest = 2e-5;
  const std::vector<double> torch = run_python(torch_program);
  ASSERT_EQ(torch.size(), 80u) << "the Python program failed";
  const std::vector<OptimizerConfig> configs = {
      schedule(Decay::cosine, 5, 0, peak, lowest),
      schedule(Decay::linear, 5, 0, peak, lowest),
      schedule(Decay::constant, 5, 0, peak, 0),
      schedule(Decay::wsd, 5, 6, peak, lowest),
  };
  for (size_t i = 0; i < configs.size(); ++i) {
    SCOPED_TRACE(config::name_of(configs[i].schedule));
    const auto begin = torch.begin() + static_cast<ptrdiff_t>(20 * i);
    expect_equal(rates(configs[i], 20, 20), {begin, begin + 20}, peak, 20 * 6);
  }
}

}  // namespace
}  // namespace terrace::optim
