// Tests the profile of a tiny run: its operations and time, and that profiling changes no result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/machine/software.h"
#include "terrace/ops/products/products.h"
#include "terrace/plan/prediction.h"
#include "terrace/profile/record.h"
#include "terrace/run/run_training.h"
#include "terrace/train/stop_request.h"
#include "tests/profile/sum_of.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::HasSubstr;

void expect_all_in(const std::set<std::string>& names, std::initializer_list<const char*> expected) {
  for (const char* name : expected) EXPECT_TRUE(names.contains(name)) << name;
}
class ProfiledRun : public train::TinyRun {
 protected:
  Profile profiled(int64_t steps, const std::vector<std::string>& more = {}, int64_t ranks = 1,
                   const ops::ProductsByClass& products = {}) const {
    std::vector<std::string> overrides = {"train.threads=1"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    Profile found;
    run_training(tiny_config(overrides),
                 {.ranks = ranks,
                  .resume = "",
                  .measure_peak =
                      [](const at::Device&, at::ScalarType) {
                        return train::Peak{1e9, "test"};
                      },
                  .choose_products = [&](const at::Device&, at::ScalarType,
                                         const std::set<ops::WeightClass>&) { return products; },
                  .profile_steps = steps,
                  .report_profile = [&](const Profile& profile) { found = profile; }});
    return found;
  }

  // FLOPs of one step: 64 tokens; two blocks with matrices of 72 x 24, 24 x 24 and twice 24 x 96 and a head of 64 x 24,
  // each in three products; and four sequences with two layers of three heads of width 8 and 16 x 17 / 2 pairs.
  static constexpr double step_flops = 6.0 * 64 * (2 * (1728 + 576 + 2 * 2304) + 1536) + 14.0 * 136 * 8 * 3 * 2 * 4;
};

TEST_F(ProfiledRun, CountsTheFlopsOfATinyModel) {
  for (const char* precision : {"train.precision=fp32", "train.precision=bf16"}) {
    const Profile profile =
        profiled(3, {precision, std::string("checkpoint.folder=") + (folder_ / precision).string()});
    EXPECT_EQ(profile.first_step, 3);
    EXPECT_EQ(profile.last_step, 5);
    EXPECT_EQ(profile.operations.steps, 3);
    EXPECT_EQ(sum_of(profile.operations).flops, 3 * step_flops) << precision;
  }
}

TEST_F(ProfiledRun, NamesOurOwnOperationsToo) {
  const Profile profile = profiled(1, {"model.dropout=0.1"});
  std::set<std::string> names;
  for (const observe::OperationRow& row : profile.operations.rows) {
    names.insert(row.name);
    // On a CPU heads are copied by an operation of torch's, in whose row the bytes are.
    const bool by_torch = row.name == "terrace::copy_heads";
    EXPECT_TRUE(row.bytes > 0 || by_torch || !row.name.starts_with("terrace::")) << row.name;
  }
  const bool own = ops::products_instructions(at::kCPU, at::kFloat, ops::Products::own) != std::string_view("torch");
  expect_all_in(names, {"terrace::norm", "terrace::norm_backward", "terrace::dropout",
                        own ? "terrace::row_sums" : "terrace::cross_entropy", "terrace::add_rows",
                        "terrace::add_column_sums", "terrace::squares", "terrace::adamw"});
}

// A plan counts the bytes that the first of two ranks reads and writes to convert weights and gradients to bf16 and
// back, here as seconds of a machine whose memory reads or writes one byte in a second and whose links take no time.
TEST_F(ProfiledRun, ConvertsTheBytesThatArePlanned) {
  machine::Machine machine = machine::load("laptop");
  machine.device.memory_bandwidth = 1;
  for (machine::Tier& tier : machine.tiers) tier.link_bandwidth = 1e30, tier.latency_seconds = 0;
  const plan::Target target{.machine = machine, .software = machine::load_software("terrace"), .devices = 2};
  const auto overrides = [&](const std::string& type) {
    return std::vector<std::string>{"layout.sharding=zero3", "layout.gather_type=" + type, "layout.reduce_type=" + type,
                                    "train.micro_batch=1", "checkpoint.folder=" + (folder_ / type).string()};
  };
  const auto copied = [&](const std::string& type) {
    double bytes = 0;
    for (const observe::OperationRow& row : profiled(1, overrides(type), 2).operations.rows) {
      if (row.name == "aten::copy_") bytes += row.bytes;
    }
    return bytes;
  };
  const auto planned = [&](const std::string& type) {
    return plan::predict(tiny_config(overrides(type)), target).step_seconds;
  };
  EXPECT_NEAR(copied("bf16") - copied("same"), planned("bf16") - planned("same"), 1);
}

TEST_F(ProfiledRun, ComputesEachProductWithTheChosenKernels) {
  if (ops::products_instructions(at::kCPU, at::kFloat, ops::Products::own) == std::string_view("torch"))
    GTEST_SKIP() << "this processor has no instructions for our products";
  const std::map<std::string_view, std::set<std::string>> own_names = {
      {"forward", {"terrace::linear", "terrace::linear_gelu"}},
      {"input_gradient", {"terrace::linear_inputs", "terrace::linear_inputs_gelu"}},
      {"weight_gradient", {"terrace::linear_weights"}}};
  for (const ops::NamedProduct& by_torch : ops::named_products) {
    ops::ProductsByClass products;
    for (const ops::WeightClass weights : ops::weight_classes)
      products[weights].*by_torch.choice = ops::Products::torch;
    const std::string folder = (folder_ / by_torch.name).string();
    std::set<std::string> names;
    for (const observe::OperationRow& row : profiled(1, {"checkpoint.folder=" + folder}, 1, products).operations.rows) {
      names.insert(row.name);
    }
    for (const auto& [product, of_product] : own_names) {
      for (const std::string& name : of_product) EXPECT_EQ(names.contains(name), product != by_torch.name) << name;
    }
  }
}

TEST_F(ProfiledRun, TimesAddUpToTheStepsOnTheClock) {
  const Profile profile = profiled(5);
  const observe::OperationTable& table = profile.operations;
  EXPECT_NEAR(sum_of(table).seconds + table.between_seconds, table.seconds, 1e-9);
  EXPECT_GT(sum_of(table).seconds, 0);
  EXPECT_GE(table.between_seconds, 0);
  // Compares each step's span with the time that the trainer measured. Takes the median, since another process may take
  // the processor between the two readings of the clock.
  const observe::RunMetrics metrics = observe::read_metrics(folder_ / "run");
  std::vector<double> ratios;
  const Json trace = Json::parse(read_text(profile.trace));
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != observe::step_phase) continue;
    const int64_t step = profile.first_step + static_cast<int64_t>(ratios.size());
    EXPECT_EQ(event["args"]["detail"], "step " + std::to_string(step));
    ratios.push_back(event["dur"].get<double>() * 1e-6 / metrics.steps.at(step).step_seconds);
  }
  ASSERT_EQ(ratios.size(), 5u);
  std::ranges::nth_element(ratios, ratios.begin() + 2);
  EXPECT_NEAR(ratios[2], 1, 0.03);
}

TEST_F(ProfiledRun, TheTraceIsNestedAndHasThePhases) {
  const Profile profile = profiled(2, {"checkpoint.every=3", "train.evaluate_every=3"});
  std::map<int, std::vector<std::pair<double, double>>> open_in;  // thread -> (begin, end)
  std::set<std::string> names;
  const Json trace = Json::parse(read_text(profile.trace));
  for (const Json& event : trace["traceEvents"]) {
    names.insert(event["name"]);
    if (event["ph"] != "X") continue;
    auto& open = open_in[event["tid"]];
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    // The trace has whole nanoseconds, written as rounded microseconds.
    constexpr double rounding = 1e-4;
    while (!open.empty() && open.back().second <= begin + rounding) open.pop_back();
    EXPECT_TRUE(open.empty() || end <= open.back().second + rounding) << event;
    open.emplace_back(begin, end);
  }
  expect_all_in(names, {"step", "data", "forward", "backward", "optimizer", "evaluate", "save", "terrace::norm"});
}

TEST_F(ProfiledRun, TableCountsTheFirstRankAndTraceShowsAllRanks) {
  const Profile profile = profiled(2, {}, 2);
  EXPECT_EQ(profile.operations.steps, 2);
  EXPECT_EQ(sum_of(profile.operations).flops, 2 * step_flops / 2);  // half of the sequences
  std::map<int, std::string> names;
  std::map<int, int> steps;
  const Json trace = Json::parse(read_text(profile.trace));
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
    if (event["name"] == observe::step_phase) ++steps[event["pid"]];
  }
  EXPECT_EQ(names.at(0), "rank 0");
  EXPECT_EQ(names.at(1), "rank 1");
  EXPECT_EQ(steps, (std::map<int, int>{{0, 2}, {1, 2}}));
}

TEST_F(ProfiledRun, ChangesNoBit) {
  profiled(3);
  const auto profiled_checkpoint = checkpoint::newest(folder_ / "run").value();
  train::Trainer plain(tiny_config({"train.threads=1"}), {}), continued(tiny_config({"train.threads=1"}), {});
  take_steps(plain, 10);
  continued.resume(checkpoint::Reader(profiled_checkpoint));
  expect_equal(snapshot(plain), snapshot(continued));
}

TEST_F(ProfiledRun, NeedsEnoughSteps) {
  try {
    profiled(9);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("profile at most 8"));
  }
}

// Requests a stop after a step, as a signal would.
TEST_F(ProfiledRun, ARunThatStopsEarlierGivesAProfileOfItsSteps) {
  train::Trainer trainer(tiny_config(), {});
  std::filesystem::create_directories(folder_ / "run");
  Profile found;
  trainer.add_hook(std::make_unique<train::StopAfter>(4));
  trainer.add_hook(make_profile_hook(trainer, 8, [&](const Profile& profile) { found = profile; }));
  trainer.run();
  train::clear_stop_request();
  EXPECT_EQ(found.operations.steps, 2);
  EXPECT_EQ(found.last_step, 4);
}

}  // namespace
}  // namespace terrace::run
