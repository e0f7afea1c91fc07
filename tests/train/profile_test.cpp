// A profile: the FLOPs and bytes of operations by hand, a tiny run's operations and time, and that nothing else
// changes.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/ops/record.h"
#include "terrace/train/operation_recorder.h"
#include "terrace/train/run.h"
#include "terrace/train/stop_request.h"
#include "tests/train/tiny_run.h"

namespace terrace::train {
namespace {

using ::testing::HasSubstr;

// All operations that `action` runs, as one step.
template <typename Action>
observe::OperationTable record(const Action& action) {
  OperationRecorder recorder(at::kCPU);
  {
    const ops::PhaseRecord step(observe::step_phase, 1);
    action();
  }
  return observe::count_operations(recorder.finish());
}

observe::OperationRow sum_of(const observe::OperationTable& table, const std::string& part = "") {
  observe::OperationRow sum;
  for (const observe::OperationRow& row : table.rows) {
    if (row.name.find(part) == std::string::npos) continue;
    sum.calls += row.calls;
    sum.seconds += row.seconds;
    sum.flops += row.flops;
    sum.bytes += row.bytes;
  }
  return sum;
}

void expect_all_in(const std::set<std::string>& names, std::initializer_list<const char*> expected) {
  for (const char* name : expected) EXPECT_TRUE(names.contains(name)) << name;
}

TEST(OperationRecorder, OfPhasesAloneLeavesOperationsOut) {
  OperationRecorder recorder(at::kCPU, nullptr, OperationRecorder::Records::phases);
  {
    const ops::PhaseRecord phase("forward");
    at::add(at::ones({2}), at::ones({2}));
  }
  const observe::Trace trace = recorder.finish();
  ASSERT_EQ(trace.size(), 1U);
  ASSERT_EQ(trace[0].spans.size(), 1U);
  EXPECT_EQ(trace[0].spans[0].name, "forward");
}

TEST(OperationCost, OfProductsIsTwoAMultiplyAdd) {
  const at::Tensor a = at::ones({3, 4}), b = at::ones({4, 5}), c = at::ones({3, 5});
  const at::Tensor batch_a = at::ones({2, 3, 4}), batch_b = at::ones({2, 4, 5}), batch_c = at::ones({2, 3, 5});
  EXPECT_EQ(sum_of(record([&] { at::mm(a, b); })).flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(sum_of(record([&] { at::addmm(c, a, b); })).flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(sum_of(record([&] { c.addmm_(a, b); })).flops, 2 * 3 * 4 * 5);
  EXPECT_EQ(sum_of(record([&] { at::bmm(batch_a, batch_b); })).flops, 2 * 2 * 3 * 4 * 5);
  EXPECT_EQ(sum_of(record([&] { at::baddbmm(batch_c, batch_a, batch_b); })).flops, 2 * 2 * 3 * 4 * 5);
  // A product made of another counts once.
  EXPECT_EQ(sum_of(record([&] { at::matmul(batch_a, b); })).flops, 2 * 2 * 3 * 4 * 5);
}

TEST(OperationCost, OfAttentionIsThatOfThePairsThatAreSeen) {
  constexpr int64_t batch = 2, heads = 3, length = 5, width = 8;
  const auto attend = [&](bool causal, bool differentiate) {
    const at::Tensor x = at::ones({batch, heads, length, width}).requires_grad_(differentiate);
    return record([&] {
      const at::Tensor y = at::scaled_dot_product_attention(x, x, x, std::nullopt, 0.0, causal);
      if (differentiate) y.backward(at::ones(y.sizes()));
    });
  };
  constexpr double all = batch * heads * width * length * length;
  constexpr int64_t pairs = length * (length + 1) / 2;
  constexpr double seen = batch * heads * width * pairs;
  EXPECT_EQ(sum_of(attend(false, false)).flops, 4 * all);
  EXPECT_EQ(sum_of(attend(true, false)).flops, 4 * seen);
  EXPECT_EQ(sum_of(attend(true, true)).flops, 14 * seen);
}

TEST(OperationCost, BytesAreThoseOfTensorsInAndOut) {
  const at::Tensor a = at::ones({10}), b = at::ones({10}), table = at::ones({1000, 4}), matrix = at::ones({6, 6});
  const at::Tensor rows = at::zeros({3}, at::kLong);
  EXPECT_EQ(sum_of(record([&] { at::add(a, b); })).bytes, 3 * 40);
  EXPECT_EQ(sum_of(record([&] { a.view({2, 5}).t(); })).bytes, 0);
  // A broadcast tensor is as large as what it holds; a result that is given is written once.
  const at::Tensor broadcast = at::ones({1}).expand({10});
  EXPECT_EQ(sum_of(record([&] { at::add(a, broadcast); })).bytes, 40 + 4 + 40);
  at::Tensor out = at::zeros({6, 6});
  EXPECT_EQ(sum_of(record([&] { at::mm_out(out, matrix, matrix); })).bytes, 3 * 144);
  // Of the table of an embedding only three rows are read.
  EXPECT_EQ(sum_of(record([&] { at::embedding(table, rows); })).bytes, 24 + 2 * 48);
}

TEST(OperationRecorder, SeesNothingBeforeItAndAfter) {
  EXPECT_FALSE(ops::recording());
  {
    OperationRecorder recorder(at::kCPU);
    EXPECT_TRUE(ops::recording());
  }
  EXPECT_FALSE(ops::recording());
  EXPECT_EQ(record([] {}).rows.size(), 0u);
}

// As of a thread that saves in the background.
TEST(OperationRecorder, LeavesOutWhatEndsAfterIt) {
  auto recorder = std::make_unique<OperationRecorder>(at::kCPU);
  { const ops::PhaseRecord inside("inside"); }
  auto open = std::make_unique<ops::PhaseRecord>("save");
  const observe::Trace trace = recorder->finish();
  open.reset();
  ASSERT_EQ(trace.size(), 1u);
  ASSERT_EQ(trace[0].spans.size(), 1u);
  EXPECT_EQ(trace[0].spans[0].name, "inside");
}

class ProfiledRun : public TinyRun {
 protected:
  Profile profiled(int64_t steps, const std::vector<std::string>& more = {}, int64_t ranks = 1) const {
    std::vector<std::string> overrides = {"train.threads=1"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    Profile found;
    run(tiny_config(overrides), {.ranks = ranks,
                                 .resume = "",
                                 .measure_peak =
                                     [](const at::Device&, at::ScalarType) {
                                       return Peak{1e9, "test"};
                                     },
                                 .profile_steps = steps,
                                 .report_profile = [&](const Profile& profile) { found = profile; }});
    return found;
  }

  // Of one step: 64 tokens; two blocks with matrices of 72 x 24, 24 x 24 and twice 24 x 96 and a head of 64 x 24, each
  // in three products; and four sequences with two layers of three heads of width 8 and 16 x 17 / 2 pairs.
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
    EXPECT_TRUE(row.bytes > 0 || !row.name.starts_with("terrace::")) << row.name;
  }
  expect_all_in(names, {"terrace::norm", "terrace::norm_backward", "terrace::dropout", "terrace::cross_entropy",
                        "terrace::add_rows", "terrace::add_column_sums", "terrace::squares", "terrace::adamw"});
}

TEST_F(ProfiledRun, TimesAddUpToTheStepsOnTheClock) {
  const Profile profile = profiled(5);
  const observe::OperationTable& table = profile.operations;
  EXPECT_NEAR(sum_of(table).seconds + table.between_seconds, table.seconds, 1e-9);
  EXPECT_GT(sum_of(table).seconds, 0.2 * table.seconds);
  EXPECT_GE(table.between_seconds, 0);
  // Each step's span against the time that the trainer itself measured. The median, since another process may take the
  // processor between the two readings of the clock.
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
    // Nanoseconds are whole, and as microseconds they are rounded.
    constexpr double rounding = 1e-4;
    while (!open.empty() && open.back().second <= begin + rounding) open.pop_back();
    EXPECT_TRUE(open.empty() || end <= open.back().second + rounding) << event;
    open.emplace_back(begin, end);
  }
  expect_all_in(names, {"step", "data", "forward", "backward", "optimizer", "evaluate", "save", "terrace::norm"});
}

TEST_F(ProfiledRun, OfRanksThatAreThreadsCountsTheFirstAndShowsAll) {
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
  Trainer plain(tiny_config({"train.threads=1"}), {}), continued(tiny_config({"train.threads=1"}), {});
  take_steps(plain, 10);
  continued.resume(checkpoint::Reader(profiled_checkpoint));
  expect_equal(snapshot(plain), snapshot(continued));
}

TEST_F(ProfiledRun, NeedsStepsEnough) {
  try {
    profiled(9);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("profile at most 8"));
  }
}

// Requests a stop after a step, as a signal would.
class StopAfter : public Hook {
 public:
  explicit StopAfter(int64_t step) : step_(step) {}
  void after_step(Trainer&, const StepReport& report) override {
    if (report.metrics.step == step_) request_stop();
  }

 private:
  int64_t step_;
};

TEST_F(ProfiledRun, OfARunThatStopsEarlierHasTheStepsThatThereWere) {
  Trainer trainer(tiny_config(), {});
  std::filesystem::create_directories(folder_ / "run");
  Profile found;
  trainer.add_hook(std::make_unique<StopAfter>(4));
  trainer.add_hook(make_profile_hook(trainer, 8, [&](const Profile& profile) { found = profile; }));
  trainer.run();
  clear_stop_request();
  EXPECT_EQ(found.operations.steps, 2);
  EXPECT_EQ(found.last_step, 4);
}

}  // namespace
}  // namespace terrace::train
