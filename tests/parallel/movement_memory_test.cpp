// Compares the bytes that movements allocate beside the buffers of weights and gradients with the prediction of plan,
// to the byte: only the movements of a step's list are executed, so that nothing else is counted.
#include "terrace/plan/memory/movement_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "terrace/memory/meter.h"
#include "terrace/models/gpt/planned_gpt.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

using Kind = schedule::StepInstruction::Kind;

struct MovementCase {
  Training training = {};
  Layout layout = {};
  int64_t micro_batches = 1;
  config::Precision gradient_type = config::Precision::fp32;

  std::string name() const {
    return fmt::format("{} {} on {}, {} micro-batches, gradients {}", training.model, name_of(training.precision),
                       layout.name(), micro_batches, name_of(gradient_type));
  }
};

// The most bytes of a rank's movements in three steps.
class MovementMeter {
 public:
  MovementMeter(CutModel& cut, int64_t micro_batches) : cut_(cut) {
    const c10::DebugInfoGuard metered(c10::DebugInfoKind::PROFILER_STATE, meter_);
    for (int64_t step = 1; step <= 3; ++step) {
      cut_.sharded.begin_step(5, step);
      for (const schedule::StepInstruction& one : cut_.training_step(micro_batches)) execute(one);
    }
    cut_.sharded.finish_update();
  }

  int64_t most() const { return most_; }
  int64_t left() const { return meter_->now; }

 private:
  // Whole weights and gradients, which other tests count.
  int64_t whole() const { return cut_.sharded.bytes().gathered_weights + cut_.sharded.bytes().whole_gradients; }

  void execute(const schedule::StepInstruction& one) {
    const int64_t before = whole();
    meter_->peak = meter_->now;
    if (one.kind == Kind::release) return cut_.sharded.release(one.segment);
    if (one.kind == Kind::allocate_gradient) return cut_.sharded.allocate_gradient(one.segment);
    if (one.kind == Kind::begin_movement) {
      cut_.sharded.begin(one);
      most_ = std::max(most_, meter_->peak - whole());  // the whole weights came first
    } else if (one.kind == Kind::end_movement) {
      cut_.sharded.end(one);
      most_ = std::max(most_, meter_->peak - before);  // the whole gradient goes last
    }
  }

  CutModel& cut_;
  std::shared_ptr<memory::Meter> meter_ = std::make_shared<memory::Meter>();
  int64_t most_ = 0;
};

struct CountedMovements {
  int64_t stage = 0, bytes = 0;
};

std::vector<CountedMovements> counted_movements(const MovementCase& one) {
  at::set_num_threads(1);
  const config::LayoutConfig layout = layout_config(one.layout, false);
  std::vector<CountedMovements> counted(static_cast<size_t>(one.layout.ranks));
  comm::run_threads(one.layout.ranks, {.timeout_seconds = 60}, [&](comm::World& world) {
    const auto model = small_model(one.training, nn::scalar_type(one.training.precision));
    CutModel cut(*model, world, small_layout(one.training, layout, world.size()), layout,
                 sharding_options(layout, nn::scalar_type(one.gradient_type)));
    const MovementMeter meter(cut, one.micro_batches);
    EXPECT_EQ(meter.left(), 0);
    counted[static_cast<size_t>(world.rank())] = {cut.mesh.coordinate(world.rank(), "pipeline"), meter.most()};
  });
  return counted;
}

plan::PlannedRun planned_run_of(const MovementCase& one) {
  config::Config config = config::config_of(models::gpt::planned_family());
  config.layout = layout_config(one.layout, false);
  config.train.global_batch = one.micro_batches * (one.layout.ranks / config.layout.pipeline);
  config.train.micro_batch = 1;
  config.train.precision = one.training.precision;
  config.train.gradient_type = one.gradient_type;
  const auto table = std::make_shared<const plan::PlannedTable>(small_table(one.training), config.layout);
  const auto partition = std::make_shared<const schedule::Partition>(schedule::partition(table->rows, config.layout));
  return {config, one.layout.ranks, one.layout.ranks, {table, partition}};
}

std::vector<Layout> movement_layouts() {
  return {
      {3, {"sharding=ddp"}},
      {2, {"sharding=zero1"}},
      {3, {"sharding=zero2"}},
      {4, {"sharding=zero3"}},
      {2, {"sharding=zero3", "prefetch=0"}},
      {4, {"sharding=hybrid", "shard_group=2"}},
      {8, {"sharding=three_level", "ranks_per_node=4"}},
      {8, {"shard_gradients=2", "shard_optimizer=4"}},
      {4, {"sharding=zero1", "ranks_per_node=2", "route=rails"}},
      {4, {"sharding=zero3", "ranks_per_node=2", "route=rails"}},
      {8, {"sharding=three_level", "ranks_per_node=4", "route=rails"}},
      {8, {"shard_weights=2", "shard_gradients=2", "shard_optimizer=8", "ranks_per_node=4", "route=rails"}},
      {4, {"sharding=zero2", "deterministic=true"}},
  };
}

std::vector<std::vector<std::string>> movement_types() {
  return {{},
          {"gather_type=bf16", "reduce_type=bf16", "update_type=bf16"},
          {"gather_type=fp32", "reduce_type=fp32", "update_type=fp32"},
          {"gather_type=int8", "reduce_type=int4", "update_type=int8"},
          {"gather_type=fp8", "reduce_type=fp8", "update_type=int4"},
          {"reduce_type=int8", "error_feedback=true"},
          {"gather_type=int8", "reduce_type=int4", "update_type=int8", "node_type=same"},
          {"gather_type=fp8", "reduce_type=int4", "update_type=int8", "node_type=bf16", "error_feedback=true"}};
}

std::vector<Training> kept_types() {
  return {{.model = "tied_stack"}, {.model = "llama", .precision = config::Precision::bf16}};
}

TEST(MovementMemory, EqualsThePlanToTheByte) {
  int64_t most = 0;
  for (const Layout& layout : movement_layouts()) {
    for (const std::vector<std::string>& types : movement_types()) {
      for (const Training& training : kept_types()) {
        for (const int64_t micro_batches : {1, 2, 4}) {
          const MovementCase one{.training = training,
                                 .layout = layout.with(types),
                                 .micro_batches = micro_batches,
                                 .gradient_type = micro_batches == 2 ? training.precision : config::Precision::fp32};
          SCOPED_TRACE(one.name());
          const int64_t expected = plan::movement_bytes(planned_run_of(one), 0, {});
          for (const CountedMovements& rank : counted_movements(one)) EXPECT_EQ(rank.bytes, expected);
          most = std::max(most, expected);
        }
      }
    }
  }
  EXPECT_GT(most, 0);
}

// Without another type, a second hop or earlier micro-batches nothing is allocated.
// Buffers of experts are cut over other ranks than those beside them.
TEST(MovementMemory, OfExpertsEqualsThePlanToTheByte) {
  for (const Layout& layout : {Layout{2, {"experts=2", "sharding=zero3"}}, Layout{4, {"experts=2", "sharding=zero3"}},
                               Layout{4, {"experts=2", "shard_gradients=2", "shard_optimizer=4"}},
                               Layout{4, {"experts=2", "sharding=zero1", "ranks_per_node=2", "route=rails"}},
                               Layout{6, {"experts=3", "sharding=zero2"}}}) {
    for (const std::vector<std::string>& types : movement_types()) {
      for (const int64_t micro_batches : {1, 2, 4}) {
        const MovementCase one{.training = {.model = "cut_experts", .precision = config::Precision::bf16},
                               .layout = layout.with(types),
                               .micro_batches = micro_batches};
        SCOPED_TRACE(one.name());
        const int64_t expected = plan::movement_bytes(planned_run_of(one), 0, {});
        for (const CountedMovements& rank : counted_movements(one)) EXPECT_EQ(rank.bytes, expected);
      }
    }
  }
}

TEST(MovementMemory, NoneWhereBuffersAreSentAsTheyAre) {
  for (const Layout& layout : {Layout{3, {"sharding=ddp"}},
                               {2, {"sharding=zero1"}},
                               {4, {"sharding=zero3"}},
                               {8, {"sharding=three_level", "ranks_per_node=4"}}}) {
    const MovementCase one{.training = {.model = "tied_stack"}, .layout = layout};
    for (const CountedMovements& rank : counted_movements(one)) EXPECT_EQ(rank.bytes, 0) << one.name();
    EXPECT_EQ(plan::movement_bytes(planned_run_of(one), 0, {}), 0) << one.name();
  }
}

// Three micro-batches are enough for every order of computations of every schedule.
TEST(MovementMemory, StagesTakeAtMostThatOfThePlan) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    for (const char* sharding : {"sharding=zero1", "sharding=zero2", "sharding=zero3"}) {
      const MovementCase one{.training = {.model = "cut_gpt2_deep"},
                             .layout = {4,
                                        {"pipeline=2", std::string("schedule=") + schedule, sharding,
                                         "gather_type=int8", "reduce_type=int4", "update_type=int8"}},
                             .micro_batches = 6};
      SCOPED_TRACE(one.name());
      const plan::PlannedRun run = planned_run_of(one);
      for (const CountedMovements& rank : counted_movements(one)) {
        const int64_t expected = plan::movement_bytes(run, rank.stage, {});
        EXPECT_LE(rank.bytes, expected);
        EXPECT_GE(rank.bytes, 0.8 * static_cast<double>(expected));
      }
    }
  }
}

}  // namespace
}  // namespace terrace::parallel
