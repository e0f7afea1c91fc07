// Compares the time of evaluations with the forwards that they consist of.
#include "terrace/plan/time/evaluation_time.h"

#include <gtest/gtest.h>

#include "terrace/plan/prediction.h"
#include "terrace/plan/time/predicted_costs.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {
namespace {

// Without limits by memory or links, a backward takes twice as long as a forward, or 2.5 times where it is of
// attention, which it computes again; causal attention of 16 positions has a small part of the work.
TEST(EvaluationTime, IsThatOfTheForwards) {
  const config::Config config = small_gpt(4);
  const Target target{.machine = computing_machine(), .software = {}, .devices = 1};
  const PlannedRun run = planned_run(config, target);
  const PredictedCosts costs(run, target.machine, target.software);
  const double round = evaluation_round_seconds(config, target);
  EXPECT_DOUBLE_EQ(round, costs.chunk_seconds(0, 0, false));
  const double step = predict(config, target).step_seconds;  // of eight micro-batches
  EXPECT_NEAR(step / 8 / round, 3, 0.1);
}

// Stages follow each other, with a send between them.
TEST(EvaluationTime, StagesOfAPipelineDoNotOverlap) {
  config::Config config = small_gpt(4);
  config.layout.pipeline = 2;
  config.layout.stage_layers = {2, 2};
  const Target target{.machine = small_machine(), .software = {}, .devices = 2};
  const PlannedRun run = planned_run(config, target);
  const PredictedCosts costs(run, target.machine, target.software);
  const double sent = costs.send_seconds(0, {.kind = schedule::StepInstruction::Kind::send_activation, .peer = 1});
  EXPECT_GT(sent, 0);
  EXPECT_NEAR(evaluation_round_seconds(config, target),
              costs.chunk_seconds(0, 0, false) + sent + costs.chunk_seconds(1, 0, false), 1e-9);
}

// The weights of every segment are gathered before it, also where nothing is trained.
TEST(EvaluationTime, GathersCutWeights) {
  config::Config config = small_gpt(4);
  const Target target{.machine = small_machine(), .software = {}, .devices = 8};
  const double whole = evaluation_round_seconds(config, target);
  config.layout.sharding = config::Sharding::zero3;
  EXPECT_GT(evaluation_round_seconds(config, target), whole);
}

}  // namespace
}  // namespace terrace::plan
