// Compares the memory of a pipeline's activations with values computed by hand from the closed forms of a unit.
#include "terrace/plan/memory_need.h"

#include <gtest/gtest.h>

#include "terrace/models/gpt/cost/config.h"
#include "terrace/models/gpt/cost/cost.h"
#include "terrace/models/gpt/cost/family.h"

namespace terrace::plan {
namespace {

using namespace models::gpt;

// Two blocks on each of two stages; with full recompute a block keeps only its input until its backward.
TEST(MemoryNeed, HoldsTheInputsOfDeferredWeightGradients) {
  config::Config config = config::config_of(planned_family());
  ModelConfig& model = model_of(config);
  model = {.layers = 4,
           .width = 24,
           .heads = 6,
           .kv_heads = 6,
           .head_dim = 4,
           .ffn_width = 96,
           .sequence = 16,
           .vocabulary = 61,
           .vocabulary_multiple = 8};
  config.train.global_batch = 8;
  config.train.micro_batch = 1;
  config.train.recompute = config::Recompute::full;
  config.layout.pipeline = 2;
  config.layout.stage_layers = {2, 2};
  const UnitTableOptions options;
  const int64_t kept = 2 * hidden_bytes(model, options);
  const int64_t kept_first = kept + embedding_kept_bytes(model, options);
  const int64_t deferred = 2 * (attention_deferred_bytes(model, options) + ffn_deferred_bytes(model, options));
  const int64_t deferred_first = deferred + embedding_deferred_bytes(model, options);
  const auto activations = [&](config::PipelineSchedule schedule) {
    config.layout.schedule = schedule;
    return least_memory(config, 2, 2).activations;
  };
  EXPECT_EQ(activations(config::PipelineSchedule::one_f_one_b), static_cast<double>(2 * kept_first + kept));
  // Two micro-batches on either stage: the first has one of them before its input gradient, the second none.
  EXPECT_EQ(activations(config::PipelineSchedule::zb_h1),
            static_cast<double>(deferred_first + kept_first + 2 * deferred));
}

}  // namespace
}  // namespace terrace::plan
