// What the activations of a pipeline take, by hand from the closed forms of a unit.
#include "terrace/train/memory_need.h"

#include <gtest/gtest.h>

#include "terrace/models/gpt/cost.h"

namespace terrace::train {
namespace {

using models::gpt::block_weight_input_bytes;
using models::gpt::embedding_activation_bytes;
using models::gpt::embedding_weight_input_bytes;
using models::gpt::hidden_bytes;

// Two blocks on each of two stages; with full recompute a block keeps its input alone until its backward.
TEST(MemoryNeed, HoldsTheInputsOfWeightGradientsThatArePutOff) {
  config::Config config;
  config.model = {.layers = 4,
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
  const models::ActivationOptions options{.recompute = config::Recompute::full};
  const int64_t saved = 2 * hidden_bytes(config.model, options);
  const int64_t saved_first = saved + embedding_activation_bytes(config.model, options);
  const int64_t put_off = 2 * block_weight_input_bytes(config.model, options);
  const int64_t put_off_first = put_off + embedding_weight_input_bytes(config.model, options);
  const auto activations = [&](config::PipelineSchedule schedule) {
    config.layout.schedule = schedule;
    return least_memory(config, 2, 2).activations;
  };
  EXPECT_EQ(activations(config::PipelineSchedule::one_f_one_b), static_cast<double>(2 * saved_first + saved));
  // Two micro-batches on either stage: the first has one of them before its input gradient, the second none.
  EXPECT_EQ(activations(config::PipelineSchedule::zb_h1),
            static_cast<double>(put_off_first + saved_first + 2 * put_off));
}

}  // namespace
}  // namespace terrace::train
