// Compares the bytes of movements under way with values worked out by hand; tests/parallel/movement_memory_test.cpp
// compares them with what is allocated.
#include "terrace/plan/memory/movement_memory.h"

#include <gtest/gtest.h>

#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/plan/memory/stage_memory.h"

namespace terrace::plan {
namespace {

using config::WireType;
using schedule::Hop;
using schedule::Movement;
using schedule::StepInstruction;

// 16 ranks in two nodes, each of one micro-batch: weights over pairs, gradients over nodes, states over all.
config::Config three_level() {
  config::Config config = config::config_of(models::gpt::planned_family());
  models::gpt::model_of(config) = {.layers = 4, .width = 64, .heads = 4, .sequence = 16, .vocabulary = 64};
  models::gpt::derive(models::gpt::model_of(config));
  config.train.global_batch = 16;
  config.train.precision = config::Precision::bf16;
  config.layout.sharding = config::Sharding::three_level;
  config.layout.gather_type = config.layout.update_type = WireType::int8;
  config.layout.reduce_type = WireType::int4;
  return config;
}

CallMemory of(const PlannedRun& run, Movement movement, Hop hop = Hop::whole, bool accumulates = false) {
  // 65,536 elements: 4,096 for each of 16 ranks.
  return call_memory(run,
                     {.kind = StepInstruction::Kind::begin_movement,
                      .segment = 0,
                      .movement = movement,
                      .accumulates = accumulates,
                      .hop = hop},
                     PlannedFlat{.padded = 65'536, .precision = run.config.train.precision});
}

// A code of one byte or half a byte for each value, and 4 bytes for each 256 of them: 1 + 1/64 or 1/2 + 1/64.
constexpr int64_t int8_bytes(int64_t values) { return values + values / 64; }
constexpr int64_t int4_bytes(int64_t values) { return values / 2 + values / 64; }

TEST(CallMemory, OneHopMatchesHandCalculation) {
  const PlannedRun run(three_level(), 16, 8);
  // The weights have two parts; the own payload and those of both parts take memory.
  const int64_t gathered = 3 * int8_bytes(32'768);
  EXPECT_EQ(of(run, Movement::gather_weights), (CallMemory{gathered, gathered, gathered, 0}));
  const int64_t updated = 9 * int8_bytes(4'096);
  EXPECT_EQ(of(run, Movement::publish), (CallMemory{updated, updated, updated, 0}));
  // Payloads of all values are sent and received, and fp32 sums of an eighth are added where the result lies.
  const int64_t payloads = int4_bytes(65'536);
  EXPECT_EQ(of(run, Movement::reduce), (CallMemory{2 * payloads, 2 * payloads, 2 * payloads, 0}));
  // The sum that is added to that of earlier micro-batches has fp32 gradients of an eighth.
  const int64_t sum = 4 * 8'192;
  EXPECT_EQ(of(run, Movement::reduce, Hop::whole, true),
            (CallMemory{2 * payloads + sum, 2 * payloads + sum, 2 * payloads + sum, 0}));
}

TEST(CallMemory, ErrorFeedbackEncodesWithTwoCopiesOfAPart) {
  config::Config config = three_level();
  config.layout.error_feedback = true;
  const PlannedRun run(config, 16, 8);
  const int64_t payloads = int4_bytes(65'536), part = 8'192;
  const CallMemory memory = of(run, Movement::reduce);
  EXPECT_EQ(memory.beginning, payloads + 8 * part + int4_bytes(part) + int8_bytes(part));
  EXPECT_EQ(memory.moving, 2 * payloads);
}

// Gradients in bf16 take one hop between nodes and one inside: they are summed over all 16 ranks.
TEST(CallMemory, RailsKeepTheSumsBetweenTheHops) {
  config::Config config = three_level();
  config.layout.sharding = config::Sharding::zero3;
  config.layout.route = config::Routing::rails;
  config.layout.gather_type = WireType::int8;
  config.layout.reduce_type = WireType::bf16;
  const PlannedRun run(config, 16, 8);
  const int64_t own = int8_bytes(4'096);
  EXPECT_EQ(of(run, Movement::gather_weights, Hop::rails), (CallMemory{17 * own, 17 * own, 17 * own, 16 * own}));
  EXPECT_EQ(of(run, Movement::gather_weights, Hop::node), (CallMemory{16 * own, 16 * own, 16 * own, 0}));
  // Gradients and sums of two parts in bf16; then the sums and the part that arrives.
  const int64_t inside = 2 * (65'536 + 8'192), outside = 2 * (8'192 + 4'096);
  EXPECT_EQ(of(run, Movement::reduce, Hop::node), (CallMemory{inside, inside, inside, 2 * 8'192}));
  EXPECT_EQ(of(run, Movement::reduce, Hop::rails), (CallMemory{outside, outside, outside, 0}));
}

// Gradients inside a node are summed in bf16 and need no sums in fp32; updates go between two nodes in int8.
TEST(CallMemory, MovementsInsideNodesHaveTheNodeType) {
  config::Config config = three_level();
  config.layout.node_type = config::NodeType::bf16;
  const PlannedRun run(config, 16, 8);
  EXPECT_EQ(of(run, Movement::gather_weights), (CallMemory{}));
  const int64_t updated = 9 * int8_bytes(4'096);
  EXPECT_EQ(of(run, Movement::publish), (CallMemory{updated, updated, updated, 0}));
  // All gradients in bf16, and the eighth that arrives.
  const int64_t summed = 2 * (65'536 + 8'192);
  EXPECT_EQ(of(run, Movement::reduce), (CallMemory{summed, summed, summed, 0}));
  const int64_t across = 2 * int4_bytes(8'192);
  EXPECT_EQ(of(run, Movement::reduce_across), (CallMemory{across, across, across, 0}));
}

// Payloads are decoded between the hops of rails, and sums in bf16 are encoded.
TEST(CallMemory, TwoTypesByRailsMatchHandCalculation) {
  config::Config config = three_level();
  config.layout.sharding = config::Sharding::zero3;
  config.layout.route = config::Routing::rails;
  config.layout.node_type = config::NodeType::bf16;
  const PlannedRun run(config, 16, 8);
  // The own payload and those of two nodes; the weights inside the node are bf16 themselves.
  const int64_t payloads = 3 * int8_bytes(4'096);
  EXPECT_EQ(of(run, Movement::gather_weights, Hop::rails), (CallMemory{payloads, payloads, payloads, 0}));
  EXPECT_EQ(of(run, Movement::gather_weights, Hop::node), (CallMemory{}));
  const int64_t inside = 2 * (65'536 + 8'192), sums = 2 * 8'192, sent = int4_bytes(8'192);
  EXPECT_EQ(of(run, Movement::reduce, Hop::node), (CallMemory{inside, inside, inside, sums}));
  EXPECT_EQ(of(run, Movement::reduce, Hop::rails), (CallMemory{2 * sent + sums, 2 * sent, 2 * sent, 0}));
}

// Updated weights of all segments are under way when the next step begins, and a pair gathers the first ones then.
TEST(MovementBytes, CountsTheUpdatesOfAllSegmentsAtOnce) {
  config::Config config = three_level();
  config.layout.reduce_type = WireType::same;
  config.layout.gather_type = WireType::same;
  const PlannedRun run(config, 16, 8);
  int64_t updates = 0;
  for (const int64_t segment : run.chunk(0, 0)) updates += 9 * int8_bytes(run.padded_elements(segment) / 16);
  EXPECT_EQ(movement_bytes(run, 0, {}), updates);
  EXPECT_EQ(stage_memory(run, 0, {}).of(MemoryKind::movements), static_cast<double>(updates));
  // A program that waits for each has one at a time.
  machine::Software waiting;
  waiting.gathers_while_computing = false;
  EXPECT_LT(movement_bytes(run, 0, waiting), updates / 2);
}

}  // namespace
}  // namespace terrace::plan
