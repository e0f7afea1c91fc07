// Compares the times of graphs with those of simulate_step(), and floats with values worked out by hand.
#include "terrace/schedule/step/step_graph.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/schedule/lists.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;
using Kinds = StepInstruction::Kind;

bool is_step_computation(const StepInstruction& one) {
  return one.kind == Kinds::forward || one.kind == Kinds::backward || one.kind == Kinds::loss ||
         one.kind == Kinds::input_gradient || one.kind == Kinds::weight_gradient;
}

// A number from 0.5 to 1.5 that differs from computation to computation.
double unequal(int64_t stage, const StepInstruction& one) {
  const int64_t number =
      31 * stage + 17 * one.micro_batch + 7 * one.segment + 5 * static_cast<int64_t>(one.kind) + one.chunk;
  return 0.5 + static_cast<double>((number * 37) % 101) / 100;
}

// Computations as `factor` says, sends of 0.25, movements of 0.5 with 0.125 at their end, the norm of 0.375; every
// communicator of a stage has a link of its own unless they are to share one.
StepCosts costs_of(const std::function<double(int64_t, const StepInstruction&)>& factor, bool shared) {
  StepCosts costs;
  costs.seconds = [factor](int64_t stage, const StepInstruction& one) {
    if (is_step_computation(one)) return 0.0625 + factor(stage, one);
    if (is_send(one.kind)) return 0.25;
    if (one.kind == Kinds::begin_movement) return 0.5;
    if (one.kind == Kinds::end_movement) return 0.125;
    return one.kind == Kinds::norm ? 0.375 : 0.0;
  };
  constexpr int64_t most_stages = 8, num_movements = static_cast<int64_t>(Movement::publish) + 1;
  costs.num_links = shared ? 1 : most_stages + num_movements;
  costs.link = [shared](int64_t, const StepInstruction& one) {
    if (shared) return int64_t{0};
    if (is_send(one.kind)) return one.peer;
    const bool replicas = one.movement == Movement::gather_gradients;
    return most_stages + static_cast<int64_t>(replicas ? Movement::reduce_replicas : one.movement);
  };
  return costs;
}

double computing_of(const std::function<double(int64_t, const StepInstruction&)>& factor, int64_t stage,
                    const StepInstruction& one) {
  return is_step_computation(one) ? factor(stage, one) : 0.0;
}

std::vector<StepInstructions> lists_of(const Pipeline& pipeline, const Movements& movements) {
  const Placement placed = placement(pipeline);
  const auto chunk_lists = instructions(pipeline);
  std::vector<StepInstructions> lists;
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
    // Two segments for each virtual stage.
    StageSegments segments{.chunks = {}, .last = 2 * placed.virtual_stages(), .reads = {}, .held = {}, .copies = {}};
    segments.reads.resize(static_cast<size_t>(2 * placed.virtual_stages() + 1));
    for (int64_t chunk = 0; chunk < pipeline.chunks; ++chunk) {
      const int64_t first = 2 * placed.virtual_stage(stage, chunk);
      segments.chunks.push_back({first, first + 1});
      for (const int64_t segment : {first, first + 1}) {
        segments.held.push_back(segment);
        segments.reads[static_cast<size_t>(segment)] = {segment};
      }
    }
    lists.push_back(
        training_step(chunk_lists[static_cast<size_t>(stage)], pipeline.micro_batches, segments, movements));
  }
  return lists;
}

const std::vector<mesh::ShardSizes> shardings = {
    {.weights = 1, .gradients = 1, .optimizer = 1, .ranks = 1},
    {.weights = 1, .gradients = 1, .optimizer = 1, .ranks = 4},
    {.weights = 1, .gradients = 1, .optimizer = 4, .ranks = 4},
    {.weights = 4, .gradients = 4, .optimizer = 4, .ranks = 4},
    {.weights = 2, .gradients = 2, .optimizer = 4, .ranks = 4},
};

double graph_seconds(const StepGraph& graph) {
  StepClocks clocks = StepClocks::of(graph);
  return seconds_of(graph, clocks, [&](const StepOperation& one) {
    const auto computations = graph.computations_of(one);
    return std::accumulate(computations.begin(), computations.end(), 0.0);
  });
}

TEST(StepGraph, TakesTheTimesOfTheSimulation) {
  for (const Pipeline& pipeline : all_pipelines(5, 7)) {
    for (const mesh::ShardSizes& sizes : shardings) {
      for (const bool shared : {false, true}) {
        const auto lists = lists_of(pipeline, movements_of(sizes, false));
        StepCosts costs = costs_of(unequal, shared);
        costs.beside_calls = shared ? 1.25 : 1;
        const StepSimulation simulation = simulate_step(lists, costs);
        const StepGraph graph = step_graph(
            lists, costs, [](int64_t stage, const StepInstruction& one) { return computing_of(unequal, stage, one); },
            simulation);
        ASSERT_NEAR(graph_seconds(graph), simulation.seconds, 1e-9 * simulation.seconds)
            << text(pipeline) << ", weights over " << sizes.weights << ", shared " << shared;
      }
    }
  }
}

// The graph of equal computations takes the times of a simulation with unequal ones: what waits for what does not
// depend on times as long as no link is shared.
TEST(StepGraph, TimesOtherComputationsAsASimulationOfThem) {
  const auto equal = [](int64_t, const StepInstruction&) { return 1.0; };
  for (const Pipeline& pipeline : all_pipelines(4, 6)) {
    for (const mesh::ShardSizes& sizes : shardings) {
      const auto lists = lists_of(pipeline, movements_of(sizes, false));
      const StepCosts costs = costs_of(equal, false);
      const StepGraph graph = step_graph(
          lists, costs, [&](int64_t stage, const StepInstruction& one) { return computing_of(equal, stage, one); },
          simulate_step(lists, costs));
      // The computations of a stage are in the order of its list.
      std::vector<std::vector<double>> computations(lists.size());
      for (size_t stage = 0; stage < lists.size(); ++stage) {
        for (const StepInstruction& one : lists[stage]) {
          if (is_step_computation(one)) computations[stage].push_back(unequal(static_cast<int64_t>(stage), one));
        }
      }
      std::vector<size_t> next(lists.size(), 0);
      StepClocks clocks = StepClocks::of(graph);
      const double seconds = seconds_of(graph, clocks, [&](const StepOperation& one) {
        double sum = 0;
        const auto stage = static_cast<size_t>(one.stage);
        for (uint32_t i = 0; i < one.count; ++i) sum += computations[stage].at(next[stage]++);
        return sum;
      });
      const double expected = simulate_step(lists, costs_of(unequal, false)).seconds;
      ASSERT_NEAR(seconds, expected, 1e-9 * expected) << text(pipeline) << ", weights over " << sizes.weights;
    }
  }
}

// Two stages and one micro-batch, a forward and backward of 1 on stage 0 and of 3 on stage 1: every operation is
// critical. With four micro-batches stage 1 computes from 1 to 25, and stage 0 has time between its computations.
TEST(StepGraph, FloatsAreTheTimesThatAnOperationMayBeLate) {
  const auto factor = [](int64_t stage, const StepInstruction&) { return stage == 0 ? 0.5 : 1.5; };
  for (const int64_t micro_batches : {1, 4}) {
    const auto lists = lists_of({PipelineSchedule::gpipe, 2, micro_batches, 1}, {});
    StepCosts costs = costs_of(factor, false);
    costs.seconds = [&](int64_t stage, const StepInstruction& one) { return computing_of(factor, stage, one); };
    const StepGraph graph = step_graph(
        lists, costs, [&](int64_t stage, const StepInstruction& one) { return computing_of(factor, stage, one); },
        simulate_step(lists, costs));
    std::vector<double> computing;
    for (const StepOperation& one : graph.operations) {
      const auto all = graph.computations_of(one);
      computing.push_back(std::accumulate(all.begin(), all.end(), 0.0));
    }
    const std::vector<double> floats = floats_of(graph, computing);
    std::vector<std::vector<double>> by_stage(2);
    for (size_t i = 0; i < floats.size(); ++i) {
      if (graph.operations[i].count > 0) by_stage[static_cast<size_t>(graph.operations[i].stage)].push_back(floats[i]);
    }
    if (micro_batches == 1) {
      EXPECT_EQ(by_stage[0], (std::vector<double>{0, 0}));
      EXPECT_EQ(by_stage[1], (std::vector<double>{0}));
      continue;
    }
    // Forwards of stage 0 end at 1, 2, 3 and 4, and may end at 1, 4, 7 and 10, when stage 1 begins with them. Gradients
    // of stage 1 arrive at 16, 19, 22 and 25; backwards of stage 0 end at 17, 20, 23 and 26 and may end at 23, 24,
    // 25, 26.
    EXPECT_EQ(by_stage[0], (std::vector<double>{0, 2, 4, 6, 6, 4, 2, 0}));
    for (const double one : by_stage[1]) EXPECT_EQ(one, 0);
  }
}

}  // namespace
}  // namespace terrace::schedule
