// Tests what a plan counts of context ranks: activations, the bytes of each route, and the choice among routes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/plan/memory/stage_memory.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/time/route.h"
#include "terrace/plan/time/simulated_step.h"

namespace terrace::plan {
namespace {

using config::ContextRoute;

struct Sizes {
  int64_t sequence = 32'768, heads = 32, kv_heads = 8, context = 4, devices = 4;
};

config::Config llama_of(const Sizes& sizes, ContextRoute route) {
  config::Config config = config::config_of(models::gpt::planned_family());
  models::gpt::ModelConfig& model = models::gpt::model_of(config);
  model = {.layers = 8,
           .width = 4096,
           .heads = sizes.heads,
           .kv_heads = sizes.kv_heads,
           .ffn_width = 14'336,
           .sequence = sizes.sequence,
           .vocabulary = 128'256,
           .positions = models::gpt::Positions::rotary,
           .norm = models::gpt::Norm::rmsnorm,
           .activation = models::gpt::Activation::swiglu,
           .tied_head = false,
           .bias = false};
  models::gpt::derive(model);
  config.train.global_batch = sizes.devices / sizes.context;
  config.train.micro_batch = 1;
  config.train.precision = config::Precision::bf16;
  config.layout.sharding = config::Sharding::zero3;
  config.layout.context = sizes.context;
  config.layout.context_route = route;
  return config;
}

Target on_frontier_dies(int64_t devices) {
  return {.machine = machine::load("frontier"), .software = machine::load_software("terrace"), .devices = devices};
}

double activations_of(int64_t context) {
  const Target target = on_frontier_dies(4);
  const config::Config config = llama_of({.context = context}, ContextRoute::ring);
  const PlannedRun run = planned_run(config, target);
  return stage_memory(run, 0, target.software).of(MemoryKind::activations);
}

TEST(ContextPlan, ActivationsAreDividedAmongTheRanks) {
  EXPECT_LE(activations_of(4), 0.27 * activations_of(1));
  EXPECT_GE(activations_of(4), 0.25 * activations_of(1));
}

// The formulas of docs/context.md; tests/parallel/context_test.cpp counts the same bytes in trainings.
TEST(ContextPlan, BytesAreThoseOfThePage) {
  const Sizes sizes;
  const Target target = on_frontier_dies(sizes.devices);
  const auto bytes_by = [&](ContextRoute route) {
    const PlannedRun run = planned_run(llama_of(sizes, route), target);
    return SimulatedStep(run, target).costs.context_bytes(0);
  };
  const double layers = 8, hd = 128, ranks = 4, rows = 32'768 / ranks;
  const double keys = 2 * rows * 8 * hd, queries = rows * 32 * hd;
  EXPECT_EQ(bytes_by(ContextRoute::ring), layers * (ranks - 1) * keys * (2 + 2 + 4));
  EXPECT_EQ(bytes_by(ContextRoute::gather), layers * (ranks - 1) * keys * (2 + 2 + 4));
  EXPECT_EQ(bytes_by(ContextRoute::heads), layers * 2 * (2 * queries + keys) * 2 * (ranks - 1) / ranks);
}

// Shorter samples have less attention to hide keys behind, so the ring gives way to heads, which send less where keys
// have as many heads as queries.
TEST(ContextPlan, TheRouteIsTheOneThatTakesLeastTime) {
  std::set<ContextRoute> chosen;
  const Target target = on_frontier_dies(64);
  for (int64_t sequence = 4096; sequence <= 1'048'576; sequence *= 2) {
    const Sizes sizes{.sequence = sequence, .kv_heads = 32, .context = 16, .devices = 64};
    const auto seconds_by = [&](ContextRoute route) {
      const PlannedRun run = planned_run(llama_of(sizes, route), target);
      return SimulatedStep(run, target).costs.computation(0).total();
    };
    const PlannedRun run = planned_run(llama_of(sizes, ContextRoute::automatic), target);
    const double own = seconds_by(run.context_route);
    for (const ContextRoute other : {ContextRoute::ring, ContextRoute::gather, ContextRoute::heads}) {
      EXPECT_LE(own, seconds_by(other)) << sequence;
    }
    chosen.insert(run.context_route);
  }
  EXPECT_TRUE(chosen.contains(ContextRoute::ring));
  EXPECT_TRUE(chosen.contains(ContextRoute::heads));
}

// All three ranks of a ring wait for nothing where attention takes longer than its transfers.
TEST(ContextPlan, LongSamplesHideTheRing) {
  const Target target = on_frontier_dies(8);
  const PlannedRun run =
      planned_run(llama_of({.sequence = 1'048'576, .context = 8, .devices = 8}, ContextRoute::ring), target);
  const PassTime step = SimulatedStep(run, target).costs.computation(0);
  EXPECT_LT(step.of(TimeKind::context), 0.2 * step.context_seconds);
}

}  // namespace
}  // namespace terrace::plan
