// Compares the memory of a pipeline's activations with values computed by hand from the closed forms of a unit, and
// judges machines and GPUs that have a little too little memory or just enough.
#include "terrace/plan/memory/memory_need.h"

#include <gtest/gtest.h>

#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"
#include "tests/models/gpt_formulas.h"

namespace terrace::plan {
namespace {

using namespace models::gpt;

// Two blocks on each of two stages; with full recompute a block keeps only its input until its backward.
config::Config two_stages() {
  config::Config config = config::config_of(planned_family());
  model_of(config) = {.layers = 4,
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
  return config;
}

TEST(MemoryNeed, HoldsTheInputsOfDeferredWeightGradients) {
  config::Config config = two_stages();
  const ModelConfig& model = model_of(config);
  const UnitTableOptions options;
  const int64_t kept = 2 * hidden_bytes(model, options);
  const int64_t kept_first = kept + embedding_kept_bytes(model, options);
  const int64_t deferred = 2 * (attention_deferred_bytes(model, options) + ffn_deferred_bytes(model, options));
  const int64_t deferred_first = deferred + embedding_deferred_bytes(model, options);
  const auto activations = [&](config::PipelineSchedule schedule) {
    config.layout.schedule = schedule;
    return least_memory(config, 2, 2, 2).activations;
  };
  EXPECT_EQ(activations(config::PipelineSchedule::one_f_one_b), static_cast<double>(2 * kept_first + kept));
  // Two micro-batches on either stage: the first has one of them before its input gradient, the second none.
  EXPECT_EQ(activations(config::PipelineSchedule::zb_h1),
            static_cast<double>(deferred_first + kept_first + 2 * deferred));
}

// A run with checkpoints beside training: the copies, 12 bytes a parameter, are in the machine's memory on GPUs too.
config::Config saving() {
  config::Config config = two_stages();
  config.checkpoint.every = 10;
  config.checkpoint.background = true;
  return config;
}

TEST(MemoryNeed, SumsTheRanksOfAMachineWithTheirCopies) {
  const config::Config config = saving();
  const MemoryNeed need = least_memory(config, 2, 2, 2);
  EXPECT_EQ(need.copies, 12.0 / 16.0 * need.states);
  EXPECT_EQ(memory_refusal(config, 2, 2, need, {.machine = need.all()}), "");
  const std::string refusal = memory_refusal(config, 2, 2, need, {.machine = need.all() - 1});
  for (const char* part :
       {"of 2 ranks here", "use a smaller model.sequence, model.width or model.layers", "checkpoint.background = false",
        "or a machine with more memory", "train.check_memory = false"}) {
    EXPECT_NE(refusal.find(part), std::string::npos) << part << " in: " << refusal;
  }
  EXPECT_EQ(memory_refusal(config, 2, 2, need, {.machine = 0}), "") << "unknown";
}

TEST(MemoryNeed, CountsCopiesInTheMemoryOfThisNodeAndOfTheNodeBefore) {
  config::Config config = two_stages();
  config.checkpoint.memory_every = 5;
  const auto copies_of_states = [&](int64_t here) {
    const MemoryNeed need = least_memory(config, 2, here, here);
    return need.copies / (12.0 / 16.0 * need.states);
  };
  EXPECT_EQ(copies_of_states(2), 2 * 1);  // one node: two generations
  EXPECT_EQ(copies_of_states(1), 2 * 2);  // each of them of two nodes
  const MemoryNeed need = least_memory(config, 2, 2, 2);
  const std::string refusal = memory_refusal(config, 2, 2, need, {.machine = need.all() - 1});
  EXPECT_NE(refusal.find("checkpoint.memory_every = 0, which takes 24 bytes a parameter less, "), std::string::npos)
      << refusal;
  EXPECT_EQ(refusal.find("checkpoint.background"), std::string::npos) << refusal;
  config.layout.ranks_per_node = 1;  // two nodes on one host
  EXPECT_EQ(copies_of_states(2), 2 * 2);
  config.train.device = "cuda";  // a copy is written from pinned memory
  EXPECT_EQ(copies_of_states(2), 1 + 2 * 2);
}

TEST(MemoryNeed, GpuHoldsOneRankAndTheMachineTheCopies) {
  const config::Config config = saving();
  const MemoryNeed rank = least_memory(config, 2, 2, 1);
  const double of_gpu = rank.states + rank.activations, of_machine = least_memory(config, 2, 2, 2).copies;
  EXPECT_EQ(rank.ranks, 1);
  EXPECT_EQ(memory_refusal(config, 2, 2, rank, {.machine = of_machine, .gpu = of_gpu}), "");
  const std::string gpu = memory_refusal(config, 2, 2, rank, {.machine = of_machine, .gpu = of_gpu - 1});
  EXPECT_NE(gpu.find("on one GPU"), std::string::npos) << gpu;
  EXPECT_NE(gpu.find("of the GPU's memory are left"), std::string::npos) << gpu;
  EXPECT_EQ(gpu.find("checkpoint.background"), std::string::npos) << gpu;
  const std::string machine = memory_refusal(config, 2, 2, rank, {.machine = of_machine - 1, .gpu = of_gpu});
  EXPECT_NE(machine.find("of the machine's memory for 2 ranks"), std::string::npos) << machine;
  EXPECT_NE(machine.find("checkpoint.background = false"), std::string::npos) << machine;
}

}  // namespace
}  // namespace terrace::plan
