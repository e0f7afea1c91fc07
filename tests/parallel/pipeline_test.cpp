// Checks that pipeline stages give the bits of one stage except where a sum has another order.
#include <gtest/gtest.h>

#include "tests/parallel/bits.h"
#include "tests/parallel/training.h"

namespace terrace::parallel {
namespace {

struct Schedule {
  const char* name;
  int64_t chunks;
};

// Two chunks per stage for schedules that allow several.
constexpr std::array schedules = {Schedule{"gpipe", 1}, Schedule{"1f1b", 1}, Schedule{"interleaved", 2},
                                  Schedule{"zb-h1", 1}, Schedule{"zb-v", 2}};

Layout pipeline_layout(int64_t stages, int64_t data, const Schedule& schedule, std::vector<std::string> keys = {}) {
  keys.insert(keys.end(), {"pipeline=" + std::to_string(stages), std::string("schedule=") + schedule.name,
                           "chunks=" + std::to_string(schedule.chunks)});
  return {stages * data, std::move(keys)};
}

// Untied weights and no clipping, since the norm may have other pieces on other stages.
void expect_one_stage(const Training& training, const std::string& sharding, int64_t data,
                      const std::vector<int64_t>& stages) {
  const Outcome one = train(training, {data, {sharding}});
  for (const int64_t count : stages) {
    for (const Schedule& schedule : schedules) {
      const Layout layout = pipeline_layout(count, data, schedule, {sharding});
      SCOPED_TRACE(layout.name());
      const Outcome ours = train(training, layout);
      expect_same_tensors(ours, one);
      for (size_t step = 0; step < one.norms.size(); ++step) {
        EXPECT_NEAR(ours.norms[step], one.norms[step], 1e-12 * one.norms[step]);
      }
    }
  }
}

TEST(Pipeline, GivesTheBitsOfOneStage) {
  expect_one_stage({.model = "llama_deep", .micro_batch = 4, .clip = 0}, "sharding=ddp", 1, {2, 3, 4});
}

TEST(Pipeline, Bf16WithRecompute) {
  expect_one_stage({.model = "llama_deep",
                    .precision = config::Precision::bf16,
                    .recompute = config::Recompute::full,
                    .micro_batch = 3,
                    .clip = 0},
                   "sharding=ddp", 1, {2, 4});
}

TEST(Pipeline, ShardedData) {
  for (const char* sharding : {"sharding=zero1", "sharding=zero2", "sharding=zero3"}) {
    expect_one_stage({.model = "llama_deep", .micro_batch = 3, .clip = 0}, sharding, 2, {2, 4});
  }
}

TEST(Pipeline, FewerMicroBatchesThanStages) {
  expect_one_stage({.model = "llama_deep", .micro_batch = 12, .clip = 0}, "sharding=ddp", 1, {4});
}

TEST(Pipeline, StackOfLinearLayers) {
  expect_one_stage({.model = "stack", .micro_batch = 4, .clip = 0}, "sharding=ddp", 1, {2});
}

TEST(Pipeline, ExactOnWholeNumbers) {
  const Training training{.model = "whole_stack", .steps = 1, .micro_batch = 4, .clip = 0, .deterministic = false};
  const Outcome one = train(training, {1, {}});
  for (const Schedule& schedule : {schedules[0], schedules[1], schedules[3]}) {
    SCOPED_TRACE(schedule.name);
    expect_same_tensors(train(training, pipeline_layout(2, 2, schedule, {"sharding=zero1"})), one);
  }
}

}  // namespace
}  // namespace terrace::parallel
