// The critical path of steps whose times are worked out by hand, and the division of layers that is proposed for them.
#include "terrace/plan/measured/measured_step.h"

#include <gtest/gtest.h>

#include "terrace/schedule/description.h"
#include "tests/plan/small_gpt.h"

namespace terrace::plan {
namespace {

using Kind = schedule::StepInstruction::Kind;

// Eight layers in two stages with four micro-batches: a layer takes 1 s forward and 2 s backward, embedding and head
// take no time, and nothing is transferred.
config::Config two_stages(const std::vector<int64_t>& stage_layers) {
  config::Config config = small_gpt(8);
  config.train.global_batch = 4;
  config.layout.pipeline = 2;
  config.layout.stage_layers = stage_layers;
  return config;
}

MeasuredStages measured(const config::Config& config, double update_seconds = 0) {
  const schedule::UnitTable table = schedule::unit_table(config);
  const schedule::ResolvedLayout layout = schedule::resolved_layout(config, table, 2, 2);
  MeasuredStages stages(2);
  for (size_t stage = 0; stage < 2; ++stage) {
    for (const int64_t segment : layout.stages[stage].chunks.front()) {
      if (layout.partition().segment(segment).layer < 0) continue;
      stages[stage].push_back({.kind = Kind::forward, .segment = segment, .seconds = 1});
      stages[stage].push_back({.kind = Kind::backward, .segment = segment, .seconds = 2});
    }
    stages[stage].push_back({.kind = Kind::update, .seconds = update_seconds});
  }
  return stages;
}

StepAnalysis analysis_of(const config::Config& config, double update_seconds = 0) {
  return analysed(config, schedule::unit_table(config), 2, 2, 4, measured(config, update_seconds));
}

double share(const StepAnalysis& analysis, int64_t stage, const std::string& kind) {
  for (const PathShare& one : analysis.path.shares) {
    if (one.stage == stage && one.kind == kind) return one.share;
  }
  return 0;
}

// The first stage has six of the layers and never waits: four times 6 s forward and 12 s backward, and an update.
TEST(MeasuredStep, StageWithMostLayersIsTheCriticalPath) {
  const StepAnalysis analysis = analysis_of(two_stages({6, 2}), 8);
  EXPECT_NEAR(analysis.path.seconds, 80, 1e-9);
  EXPECT_NEAR(share(analysis, 0, "forward"), 24.0 / 80, 1e-9);
  EXPECT_NEAR(share(analysis, 0, "backward"), 48.0 / 80, 1e-9);
  EXPECT_EQ(share(analysis, 1, "forward"), 0);
  EXPECT_EQ(text_of(analysis.path.shares.front()), "60% of the step is stage 0's backward");
  double sum = 0;
  for (const PathShare& one : analysis.path.shares) sum += one.share;
  EXPECT_NEAR(sum, 1, 1e-9);
}

// With four layers each a step of 1F1B takes 4 + 1 times 12 s, and 8 s for the update.
TEST(MeasuredStep, EqualLayersAreProposedAndSaveWhatTheFormulaSays) {
  const StepAnalysis analysis = analysis_of(two_stages({6, 2}), 8);
  ASSERT_EQ(analysis.next.size(), 1u);
  EXPECT_EQ(analysis.next.front().settings, "--set 'layout.stage_layers=[4, 4]'");
  EXPECT_NEAR(analysis.next.front().step_seconds, 68, 1e-9);
  EXPECT_NEAR(analysis.next.front().gain, 1 - 68.0 / 80, 1e-9);
  EXPECT_EQ(text_of(analysis.next.front()), "--set 'layout.stage_layers=[4, 4]' would save 15% of the step");
}

// The first and the last micro-batch cross both stages, so both are on the path.
TEST(MeasuredStep, NothingIsProposedForABalancedPipeline) {
  const StepAnalysis analysis = analysis_of(two_stages({4, 4}));
  EXPECT_NEAR(analysis.path.seconds, 60, 1e-9);
  EXPECT_TRUE(analysis.next.empty());
  EXPECT_GT(share(analysis, 0, "forward"), 0);
  EXPECT_GT(share(analysis, 1, "backward"), 0);
  double sum = 0;
  for (const PathShare& one : analysis.path.shares) sum += one.share;
  EXPECT_NEAR(sum, 1, 1e-9);
}

}  // namespace
}  // namespace terrace::plan
