// Tests that a fit finds the figures of a machine from runs that were predicted with them, and leaves the others.
#include "terrace/score/fit/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/plan/prediction.h"
#include "terrace/score/fit/fit_report.h"
#include "terrace/score/run_of_folder.h"
#include "terrace/score/run_of_row.h"
#include "tests/scratch_folder.h"

namespace terrace::score {
namespace {

using testing::HasSubstr;

constexpr const char* fit_headings =
    "id,model,layers,hidden,heads,vocab,seq,gpu,gpus,software,tp,pp,mbs,gbs,sharding,"
    "precision,recompute,sec_per_iter\n";

// Runs on one node and on several, whose steps are set by products and by the links of the network.
constexpr const char* fit_rows = R"(a,1B,24,2048,16,50257,2048,A100 80GB,1,Megatron-LM,1,1,2,16,ddp,bf16,none,1
b,1B,24,2048,16,50257,2048,A100 80GB,8,Megatron-LM,1,1,4,64,ddp,bf16,none,1
c,1B,24,2048,16,50257,2048,A100 80GB,64,Megatron-LM,1,1,4,256,ddp,bf16,none,1
d,7B,32,4096,32,50257,2048,A100 80GB,64,Megatron-LM,1,1,1,64,zero3,bf16,full,1
e,7B,32,4096,32,50257,2048,A100 80GB,128,Megatron-LM,1,1,1,128,zero3,bf16,full,1
f,7B,32,4096,32,50257,2048,A100 80GB,8,Megatron-LM,8,1,1,32,ddp,bf16,full,1
g,7B,32,4096,32,50257,2048,A100 80GB,32,Megatron-LM,8,1,1,64,zero1,bf16,full,1
h,7B,32,4096,32,50257,2048,A100 80GB,8,Megatron-LM,8,1,2,32,ddp,bf16,full,1
i,7B,32,4096,32,50257,2048,A100 80GB,8,Megatron-LM,8,1,4,64,ddp,bf16,none,1
)";

// The runs with the times that the machine is predicted to need, each multiplied by its factor of `noise`.
std::vector<PublishedRun> runs_on(const machine::Machine& machine, const std::vector<double>& noise = {}) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "runs.csv").string();
  write_text_atomically(file, std::string(fit_headings) + fit_rows);
  std::vector<PublishedRun> runs = runs_of(PublishedTable(file), {});
  for (size_t i = 0; i < runs.size(); ++i) {
    plan::Target target = runs[i].target;
    target.machine = machine;
    runs[i].seconds = plan::predict(runs[i].configs.front(), target).step_seconds * (noise.empty() ? 1 : noise[i]);
  }
  return runs;
}

machine::Machine changed_machine() {
  machine::Machine machine = machine::load("dgx-a100-80gb");
  machine.device.products[static_cast<size_t>(config::Precision::bf16)].achievable *= 0.8;
  machine.tiers.back().link_bandwidth *= 0.6;
  return machine;
}

const FittedConstant& constant(const Fit& fit, const std::string& key) {
  return *std::ranges::find(fit.constants, key, &FittedConstant::key);
}

TEST(Fit, FindsTheRatesThatTheRunsHad) {
  const machine::Machine truth = changed_machine();
  const Fit fit = fit_machine(runs_on(truth));
  const double products = fit.machine.device.rate(config::Precision::bf16).achievable;
  EXPECT_NEAR(products / truth.device.rate(config::Precision::bf16).achievable, 1, 0.04);
  EXPECT_NEAR(fit.machine.tiers.back().link_bandwidth / truth.tiers.back().link_bandwidth, 1, 0.06);
  EXPECT_GT(fit.error_before(), 0.1);
  EXPECT_LT(fit.error_after(), 0.01);
  EXPECT_LT(fit.error_left_out(), 0.05);
  // No run computes in fp32 or fp16.
  EXPECT_EQ(std::ranges::count(fit.unknown, "device.fp16.achievable"), 1);
  EXPECT_EQ(fit.machine.device.rate(config::Precision::fp16), truth.device.rate(config::Precision::fp16));
}

TEST(Fit, StatesWhatSetEachConstant) {
  const Fit fit = fit_machine(runs_on(changed_machine()));
  const FittedConstant& network = constant(fit, "tiers.network.link_bandwidth");
  EXPECT_LT(network.least, network.after);
  EXPECT_GT(network.most, network.after);
  EXPECT_GT(network.known, 0.5);
  // Runs within one node say nothing about the network.
  ASSERT_FALSE(network.set_by.empty());
  for (const Evidence& evidence : network.set_by) {
    if (evidence.share == 0) continue;
    EXPECT_GT(fit.runs[evidence.run].scored.run.target.devices, 8);
  }
}

TEST(Fit, LeavesAMachineThatIsRightAsItIs) {
  const machine::Machine truth = machine::load("dgx-a100-80gb");
  const Fit fit = fit_machine(runs_on(truth));
  for (const FittedConstant& one : fit.constants) EXPECT_NEAR(one.after / one.before, 1, 1e-9) << one.key;
  EXPECT_LT(fit.error_after(), 1e-9);
}

TEST(Fit, CountsARunThatIsFarOffLess) {
  const Fit fit = fit_machine(runs_on(changed_machine(), {1, 1, 1, 1, 1, 2.5, 1, 1, 1}));
  EXPECT_LT(fit.runs[5].weight, 0.5);
  EXPECT_LT(fit.runs[5].error(), -0.3);
  for (const size_t other : {0U, 1U, 2U, 3U, 4U, 6U, 7U, 8U})
    EXPECT_LT(std::abs(fit.runs[other].error()), 0.12) << other;
}

TEST(Fit, TheDescriptionIsReadBackWithItsErrors) {
  const Fit fit = fit_machine(runs_on(changed_machine(), {1.03, 0.98, 1.01, 1.02, 0.97, 1, 0.99, 1.01, 1}));
  const std::string text = description_of(fit, "ours");
  const machine::Machine read = machine::parse(text, "ours.toml");
  EXPECT_EQ(read.name, "ours");
  EXPECT_EQ(read.tiers, fit.machine.tiers);
  ASSERT_FALSE(read.errors.empty());
  EXPECT_EQ(read.errors.front().machines, std::vector<std::string>{"ours"});
  EXPECT_THAT(text, HasSubstr("# tiers.network.link_bandwidth: "));
  // Figures are rounded as decimals, and not as multiples of a power of ten that no double equals.
  EXPECT_EQ(text.find("99999"), std::string::npos) << text;
  // A plan for the machine has the interval of its own errors.
  plan::Target target{.machine = read, .software = machine::load_software("megatron"), .devices = 128};
  const config::Config& config = fit.runs[4].scored.config;
  const plan::StepInterval interval =
      plan::step_interval(config, plan::predict(config, target), target, plan::published_errors());
  const bool has_kind = plan::find_kind(interval.errors.kind, read.errors) != nullptr;
  EXPECT_EQ(interval.of_machine, has_kind);
}

TEST(Fit, ExpectsMoreOfFewRunsThanTheyShowed) {
  std::vector<FittedRun> runs(3);
  const double errors[] = {-0.02, 0.01, 0.01};
  for (size_t i = 0; i < 3; ++i) {
    runs[i].scored = fit_machine(runs_on(changed_machine())).runs[0].scored;
    runs[i].left_out_seconds = runs[i].scored.measured * (1 + errors[i]);
  }
  const std::vector<plan::PublishedErrors> expected = expected_errors(runs);
  ASSERT_EQ(expected.size(), 1U);
  // Logarithms -0.0202, 0.00995, 0.00995 have the mean -0.0001 and the deviation 0.01741; with t = 2.88 of two degrees
  // of freedom and a factor sqrt(4/3) the reach is 0.0580.
  EXPECT_NEAR(expected.front().lowest, -0.056, 0.002);
  EXPECT_NEAR(expected.front().highest, 0.060, 0.002);
  runs.pop_back();
  EXPECT_TRUE(expected_errors(runs).empty());
}

TEST(Fit, RefusesRunsOfSeveralMachines) {
  std::vector<PublishedRun> runs = runs_on(changed_machine());
  runs.front().target.machine = machine::load("dgx-h100");
  try {
    fit_machine(runs);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("dgx-a100-80gb (8 runs), dgx-h100 (1 runs)"));
  }
}

}  // namespace
}  // namespace terrace::score
