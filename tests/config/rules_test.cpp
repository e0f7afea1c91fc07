// Tests every rule between keys: a value that breaks the rule, the message, and that the value which the message offers
// satisfies the rule.
#include "terrace/config/rules.h"

#include <gtest/gtest.h>

#include "tests/config/config_cases.h"

namespace terrace::config {
namespace {

using Keys = std::vector<std::string>;

struct BrokenRule {
  Keys broken;
  std::string problem;  // the message without its place
  Keys fixed;
};

void expect(const std::vector<BrokenRule>& cases) {
  for (const BrokenRule& one : cases) {
    const std::string text = complaint(file_with(one.broken));
    const size_t place_end = text.find(": ");
    EXPECT_EQ(place_end == std::string::npos ? text : text.substr(place_end + 2), one.problem);
    EXPECT_EQ(complaint(file_with(one.fixed)), "");
  }
}

TEST(RuleProblems, NameBadModels) {
  expect({
      {{"model.heads=48", "model.width=6150"},
       "model.heads = 48 does not divide model.width = 6150; use 30, 41, 50 or 75, or give head_dim",
       {"model.heads=50", "model.width=6150"}},
      {{"model.heads=7"},
       "model.heads = 7 does not divide model.width = 64; use 1, 2, 4, 8, 16, 32 or 64, or give head_dim",
       {"model.heads=7", "model.head_dim=9"}},
      {{"model.kv_heads=3"},
       "model.kv_heads = 3 does not divide model.heads = 8; use 1, 2, 4 or 8",
       {"model.kv_heads=4"}},
      {{"model.positions=rotary", "model.head_dim=7"},
       "model.positions = \"rotary\" rotates pairs of channels, but the head width is odd: 7; use head_dim = 6, or "
       "positions = "
       "\"learned\"",
       {"model.positions=rotary", "model.head_dim=6"}},
      {{"model.positions=rotary", "model.rope_scaling=llama3", "model.rope_low_frequency=4"},
       "model.rope_high_frequency = 4 is not above model.rope_low_frequency = 4, so no wavelength lies between them; "
       "use rope_high_frequency = 16",
       {"model.positions=rotary", "model.rope_scaling=llama3", "model.rope_low_frequency=4",
        "model.rope_high_frequency=16"}},
      {{"model.positions=rotary", "model.rope_scaling=yarn", "model.rope_beta_slow=40"},
       "model.rope_beta_fast = 32 is not above model.rope_beta_slow = 40, so no wavelength lies between them; use "
       "rope_beta_fast = 1280",
       {"model.positions=rotary", "model.rope_scaling=yarn", "model.rope_beta_slow=40", "model.rope_beta_fast=1280"}},
      {{"model.positions=rotary", "model.rope_scaling=yarn", "model.rope_theta=1"},
       "model.rope_scaling = \"yarn\" stretches long wavelengths, but with model.rope_theta = 1 none is longer than "
       "the first; use a rope_theta above 1, such as 10000",
       {"model.positions=rotary", "model.rope_scaling=yarn", "model.rope_theta=10000"}},
      {{"model.window=8", "model.global_every=1"},
       "model.global_every = 1 makes every layer global, and none has the window; use 0 without a window, or 2 or more",
       {"model.window=8", "model.global_every=2"}},
      {{"layout.context=2", "model.window=8", "model.global_every=2"},
       "layout.context = 2 cuts positions either for windows or for layers that see all, but with model.global_every = "
       "2 the model has both; use context = 1",
       {"model.window=8", "model.global_every=2"}},
      {{"model.positions=rotary", "model.heads=64"},
       "model.positions = \"rotary\" rotates pairs of channels, but the head width is odd: 64 / 64 = 1; use head_dim = "
       "2, or "
       "positions = \"learned\"",
       {"model.positions=rotary", "model.heads=64", "model.head_dim=2"}},
  });
}

TEST(RuleProblems, NameBadExperts) {
  expect({
      {{"model.experts=6", "model.expert_groups=4"},
       "model.expert_groups = 4 does not divide model.experts = 6; use 1, 2, 3 or 6",
       {"model.experts=6", "model.expert_groups=3"}},
      {{"model.experts=8", "model.expert_groups=4", "model.expert_groups_kept=5"},
       "model.expert_groups_kept = 5 is more than model.expert_groups = 4; use 1 to 4",
       {"model.experts=8", "model.expert_groups=4", "model.expert_groups_kept=4"}},
      {{"model.experts=4", "model.experts_per_token=5"},
       "model.experts_per_token = 5 is more than the 4 experts that there are (model.experts); use 1 to 4",
       {"model.experts=4", "model.experts_per_token=4"}},
      {{"model.experts=8", "model.expert_groups=4", "model.experts_per_token=3"},
       "model.experts_per_token = 3 is more than the 2 experts of the groups that are kept; use 1 to 2, or more "
       "expert_groups_kept",
       {"model.experts=8", "model.expert_groups=4", "model.expert_groups_kept=2", "model.experts_per_token=3"}},
      {{"model.experts=4", "model.dense_layers=2"},
       "model.dense_layers = 2 leaves none of model.layers = 2 with experts; use 0 to 1, or remove model.experts",
       {"model.experts=4", "model.dense_layers=1"}},
      {{"model.experts=6", "layout.experts=4"},
       "layout.experts = 4 does not divide model.experts = 6; use 1, 2, 3 or 6",
       {"model.experts=6", "layout.experts=3"}},
      {{"layout.experts=2"},
       "layout.experts = 2 divides the experts of a model that has none; use 1, or give model.experts",
       {"layout.experts=2", "model.experts=4"}},
      {{"model.experts=4", "layout.experts=2", "train.noise_scale_every=5"},
       "layout.experts = 2 beside train.noise_scale_every = 5, which takes each rank's work for that of whole samples; "
       "use "
       "0, or experts = 1",
       {"model.experts=4", "layout.experts=2"}},
      {{"model.experts=4", "layout.tensor=2"},
       "layout.tensor = 2 with model.experts = 4 lets each rank route its own positions, which needs "
       "layout.sequence_parallel = true",
       {"model.experts=4", "layout.tensor=2", "layout.sequence_parallel=true"}},
      {{"model.experts=4", "model.shared_experts=1", "model.expert_width=25", "layout.tensor=2",
        "layout.sequence_parallel=true"},
       "layout.tensor = 2 does not divide the width 25 of model.shared_experts; use 1, 5 or 25",
       {"model.experts=4", "model.shared_experts=2", "model.expert_width=25", "layout.tensor=2",
        "layout.sequence_parallel=true"}},
  });
}

TEST(RuleProblems, NameBadData) {
  expect({
      {{"data.weights=[1.0]"},
       "data.weights has 1 numbers for 2 corpora in data.train; give 2, or []",
       {"data.weights=[1.0, 1.0]"}},
      {{"data.validation=[\"data/b\"]"},
       "data.validation names \"data/b\", which is in data.train too; remove it from one of them, or use "
       "validation_share",
       {"data.validation=[\"data/c\"]"}},
      {{"train.evaluate_every=10", "data.validation_share=0"},
       "train.evaluate_every = 10 needs held-out data; give data.validation or a validation_share such as 0.01, or use "
       "evaluate_every = 0",
       {"train.evaluate_every=10", "data.validation_share=0.0", "data.validation=[\"data/c\"]"}},
  });
}

TEST(RuleProblems, NameBadBatches) {
  expect({
      {{"train.micro_batch=5"},
       "train.global_batch = 12 is not a multiple of micro_batch = 5; use micro_batch 1, 2, 3, 4, 6 or 12, or "
       "global_batch 10 "
       "or 15",
       {"train.micro_batch=5", "train.global_batch=15"}},
      {{"train.micro_batch=13"},
       "train.global_batch = 12 is not a multiple of micro_batch = 13; use micro_batch 1, 2, 3, 4, 6 or 12, or "
       "global_batch 13",
       {"train.micro_batch=13", "train.global_batch=13"}},
      {{"train.micro_batch_sizes={tokens = 64}"},
       "train.micro_batch_sizes = {\"tokens\" = 64} limits sizes in which samples differ, and all sequences of "
       "model.family = \"gpt\" are equal in size; use train.micro_batch",
       {"train.micro_batch=2"}},
      {{"train.ramp_start=4", "train.micro_batch=4"},
       "train.ramp_start = 4 needs ramp_increment and ramp_samples, both at least 1",
       {"train.ramp_start=4", "train.micro_batch=4", "train.ramp_increment=4", "train.ramp_samples=1"}},
      {{"train.ramp_start=12", "train.ramp_increment=12", "train.ramp_samples=100"},
       "train.ramp_start = 12 must be below global_batch = 12; use less, or 0 for no ramp-up",
       {"train.ramp_start=0"}},
      {{"train.ramp_start=4", "train.ramp_increment=3", "train.ramp_samples=100", "train.micro_batch=1"},
       "train.ramp_increment = 3 does not lead from ramp_start = 4 to global_batch = 12: 8 sequences are between them; "
       "use 1, "
       "2, 4 or 8",
       {"train.ramp_start=4", "train.ramp_increment=2", "train.ramp_samples=100", "train.micro_batch=1"}},
      {{"train.ramp_start=4", "train.ramp_increment=4", "train.ramp_samples=100"},
       "train.micro_batch = 12 does not divide both ramp_start = 4 and ramp_increment = 4; use 1, 2 or 4",
       {"train.ramp_start=4", "train.ramp_increment=4", "train.ramp_samples=100", "train.micro_batch=2"}},
      {{"train.global_batch=1000001", "train.micro_batch=1", "train.ramp_start=1", "train.ramp_increment=1",
        "train.ramp_samples=9"},
       "train.ramp_increment = 1 makes 1000000 increments; at most 100000 are kept, use at least 11",
       {"train.global_batch=1000001", "train.micro_batch=1", "train.ramp_start=1", "train.ramp_increment=20",
        "train.ramp_samples=9"}},
      {{"train.steps=1000000000000", "train.global_batch=100000000"},
       "train.steps = 1000000000000 of 100000000 sequences of 32 tokens are 3.2e+21 tokens in all; at most 9e18 can be "
       "counted",
       {"train.steps=1000000000", "train.global_batch=100000000"}},
  });
}

TEST(RuleProblems, NameBadPrecisions) {
  expect({
      {{"train.gradient_type=bf16"},
       "train.gradient_type = \"bf16\" does not go with precision = \"fp32\"; use \"fp32\"",
       {"train.gradient_type=fp32"}},
      {{"train.gradient_type=fp16", "train.precision=bf16"},
       "train.gradient_type = \"fp16\" does not go with precision = \"bf16\"; use \"fp32\" or \"bf16\"",
       {"train.gradient_type=bf16", "train.precision=bf16"}},
  });
}

TEST(RuleProblems, NameBadLearningRates) {
  expect({
      {{"optimizer.warmup_steps=101"},
       "optimizer.warmup_steps = 101 is more than train.steps = 100; use warmup_steps of 0 to 100, or steps of at "
       "least "
       "101",
       {"optimizer.warmup_steps=100"}},
      {{"train.steps=12", "optimizer.warmup_steps=20"},
       "optimizer.warmup_steps = 20 is more than train.steps = 12; use warmup_steps of 0 to 12, or steps of at least "
       "20",
       {"train.steps=20", "optimizer.warmup_steps=20"}},
      {{"optimizer.min_learning_rate=1e-3"},
       "optimizer.min_learning_rate = 0.001 is above learning_rate = 0.0003; use at most that",
       {"optimizer.min_learning_rate=3e-4"}},
      {{"optimizer.warmup_steps=20", "optimizer.decay_steps=19"},
       "optimizer.decay_steps = 19 ends the decay before the warm-up of 20 steps; use at least 20, or 0",
       {"optimizer.warmup_steps=20", "optimizer.decay_steps=20"}},
      {{"optimizer.schedule=wsd"},
       "optimizer.schedule = \"wsd\" needs decay_steps of 1 to 100 (train.steps - warmup_steps), not 0",
       {"optimizer.schedule=wsd", "optimizer.decay_steps=100"}},
      {{"optimizer.schedule=wsd", "optimizer.decay_steps=81", "optimizer.warmup_steps=20"},
       "optimizer.schedule = \"wsd\" needs decay_steps of 1 to 80 (train.steps - warmup_steps), not 81; or use steps "
       "of at least 101",
       {"optimizer.schedule=wsd", "optimizer.decay_steps=80", "optimizer.warmup_steps=20"}},
      {{"optimizer.schedule=wsd", "optimizer.decay_steps=1", "optimizer.warmup_steps=100"},
       "optimizer.schedule = \"wsd\" has no step left for its decay: warmup_steps = 100, train.steps = 100; "
       "use warmup_steps of 0 to 99, or steps of at least 101",
       {"optimizer.schedule=wsd", "optimizer.decay_steps=1", "optimizer.warmup_steps=99"}},
  });
}

TEST(RuleProblems, NameBadStepsAndCheckpoints) {
  expect({
      {{"train.skip_steps=[[20, 30], [1, 2], [30, 31]]"},
       "train.skip_steps has [20, 30] and [30, 31], which overlap; write [20, 31]",
       {"train.skip_steps=[[20, 31], [1, 2]]"}},
      {{"train.skip_steps=[[1, 2], [95, 120]]"},
       "train.skip_steps has [95, 120], which reaches beyond train.steps = 100; write [95, 100], or use steps of at "
       "least 120",
       {"train.skip_steps=[[1, 2], [95, 100]]"}},
      {{"train.skip_steps=[[101, 101]]"},
       "train.skip_steps has [101, 101], which reaches beyond train.steps = 100; remove it, or use steps of at least "
       "101",
       {"train.skip_steps=[[101, 101]]", "train.steps=101"}},
      {{"checkpoint.staging=runs/small", "checkpoint.every=10"},
       "checkpoint.staging = \"runs/small\" is the run's folder too; name another one, on a fast local disk",
       {"checkpoint.staging=/fast", "checkpoint.every=10"}},
      {{"checkpoint.keep_every=50", "checkpoint.every=20"},
       "checkpoint.keep_every = 50 is not a multiple of every = 20; use 60",
       {"checkpoint.keep_every=60", "checkpoint.every=20"}},
  });
}

TEST(Rules, SilentAboutKeysThatAreWrongThemselves) {
  EXPECT_EQ(complaint_of({"model.heads=0"}),
            "--set model.heads=0: model.heads = 0 must be a whole number from 1 to 10,000; the nearest is 1");
}

// If a rule named a key that does not exist, it would be checked although the key that it means is invalid.
TEST(Rules, NameOnlyKnownKeys) {
  for (const std::vector<Rule>& rules : {core_rules(), gpt()->settings.rules}) {
    for (const Rule& rule : rules) {
      for (const std::string& name : rule.keys) {
        EXPECT_EQ(complaint_of({name + "=[[[]]]"}).find("unknown"), std::string::npos) << name;
      }
    }
  }
}

TEST(RuleProblems, NameBadPipelines) {
  expect({
      {{"layout.error_feedback=true"},
       "layout.error_feedback = true has no errors to feed back with layout.reduce_type = \"same\"; remove it, or use "
       "reduce_type = \"int8\", \"int4\" or \"fp8\"",
       {"layout.error_feedback=true", "layout.reduce_type=fp8"}},
      {{"layout.error_feedback=true", "layout.reduce_type=bf16"},
       "layout.error_feedback = true has no errors to feed back with layout.reduce_type = \"bf16\"; remove it, or use "
       "reduce_type = \"int8\", \"int4\" or \"fp8\"",
       {"layout.error_feedback=true", "layout.reduce_type=int4"}},
      {{"layout.pipeline=2", "layout.schedule=zb-v"},
       "layout.schedule = \"zb-v\" needs chunks = 2, not 1",
       {"layout.pipeline=2", "layout.schedule=zb-v", "layout.chunks=2"}},
      {{"layout.pipeline=2", "layout.chunks=2"},
       "layout.schedule = \"1f1b\" has one virtual stage a stage, not chunks = 2; use 1, or schedule = "
       "\"interleaved\" or \"zb-v\"",
       {"layout.pipeline=2", "layout.schedule=interleaved", "layout.chunks=2"}},
      {{"model.layers=4", "layout.pipeline=7"},
       "layout.pipeline = 7 with chunks = 1 cuts the 4 layers, embedding and head of the model into 7 virtual "
       "stages; use at most 6 virtual stages",
       {"model.layers=4", "layout.pipeline=6"}},
      {{"model.layers=4", "layout.pipeline=2", "layout.stage_layers=[1, 2]"},
       "layout.stage_layers has 2 numbers with the sum 3; give 2 (pipeline * chunks), each above 0 but for the first "
       "and "
       "the last, with the sum of the 4 layers",
       {"model.layers=4", "layout.pipeline=2", "layout.stage_layers=[1, 3]"}},
  });
}

TEST(RuleProblems, NameBadSizesOfTheTensorAxis) {
  expect({
      {{"model.heads=12", "model.width=768", "layout.tensor=8"},
       "layout.tensor = 8 does not divide model.heads = 12; use 1, 2, 3, 4, 6 or 12",
       {"model.heads=12", "model.width=768", "layout.tensor=4"}},
      {{"model.heads=12", "model.kv_heads=3", "model.width=768", "layout.tensor=4"},
       "layout.tensor = 4 neither divides model.kv_heads = 3 nor is a multiple of it, so that ranks could share keys "
       "and "
       "values; use 1 or 3",
       {"model.heads=12", "model.kv_heads=2", "model.width=768", "layout.tensor=4"}},
      {{"model.heads=4", "model.width=64", "model.ffn_width=90", "layout.tensor=4"},
       "layout.tensor = 4 does not divide model.ffn_width = 90; use 2, 3, 5 or 6",
       {"model.heads=4", "model.width=64", "model.ffn_width=92", "layout.tensor=4"}},
      {{"model.heads=5", "model.width=80", "model.vocabulary=50257", "layout.tensor=5"},
       "layout.tensor = 5 does not divide the padded vocabulary = 50304; use 3, 4, 6 or 8, or vocabulary_multiple = "
       "640",
       {"model.heads=5", "model.width=80", "model.vocabulary=50257", "model.vocabulary_multiple=640",
        "layout.tensor=5"}},
  });
}

TEST(RuleProblems, NameBadLayouts) {
  expect({
      {{"layout.sharding=hybrid"},
       "layout.sharding = \"hybrid\" needs layout.shard_group, the ranks that share one copy, such as 8",
       {"layout.sharding=hybrid", "layout.shard_group=8"}},
      {{"layout.sharding=three_level", "layout.ranks_per_node=6", "layout.ranks_per_pair=4"},
       "layout.ranks_per_node = 6 is not a multiple of ranks_per_pair = 4; use ranks_per_pair 1, 2, 3 or 6",
       {"layout.sharding=three_level", "layout.ranks_per_node=6", "layout.ranks_per_pair=3"}},
      {{"layout.order=[\"data\", \"tensor\"]"},
       "layout.order = [ \"data\", \"tensor\" ] leaves 1 of 3 axes out; use [\"data\", \"tensor\", \"pipeline\"]",
       {"layout.tensor=2", "layout.order=[\"data\", \"tensor\", \"pipeline\"]"}},
      {{"layout.order=[\"data\", \"tensor\", \"data\"]"},
       "layout.order = [ \"data\", \"tensor\", \"data\" ] names \"data\" twice; use [\"pipeline\", \"data\", "
       "\"tensor\"] in any order",
       {"layout.tensor=2", "layout.order=[\"tensor\", \"data\", \"pipeline\"]"}},
      {{"layout.shard_weights=0"},
       "layout.shard_weights = 0 must be \"as sharding\", \"none\", \"pair\", \"node\" or \"all\", or a number of "
       "ranks",
       {"layout.shard_weights=4"}},
  });
}

}  // namespace
}  // namespace terrace::config
