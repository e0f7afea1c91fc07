// Tests terrace verify: correct layouts hold, and a communication error in a layout is found and named.
#include "terrace/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/comm/fault.h"
#include "terrace/models/families.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/verify/shrink.h"

namespace terrace::verify {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Keys = std::vector<std::string>;

config::Config config_of(Keys keys) {
  return config::parse(R"([model]
family = "gpt"
layers = 2
width = 48
heads = 3
sequence = 16
vocabulary = 61
vocabulary_multiple = 8
init_std = 0.1
[data]
train = ["no corpus is read"]
[train]
global_batch = 16
micro_batch = 2
steps = 100
[optimizer]
learning_rate = 1e-2
[checkpoint]
folder = "nothing is written"
)",
                       "verify.toml", models::families(), keys);
}

const Keys llama = {"model.positions=rotary", "model.norm=rmsnorm", "model.activation=swiglu", "model.tied_head=false",
                    "model.bias=false",       "model.heads=4",      "model.kv_heads=2"};

// A bias moves the choices from step to step.
const Keys sparse = {"model.experts=6",         "model.experts_per_token=2", "model.expert_width=20",
                     "model.shared_experts=1",  "model.expert_groups=3",     "model.expert_groups_kept=2",
                     "model.router_bias=true",  "model.router=sigmoid",      "model.balance_loss=0.1",
                     "model.router_z_loss=0.01"};

Keys operator+(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

struct Case {
  int64_t ranks;
  Keys keys;
};

class Holds : public testing::TestWithParam<Case> {};

TEST_P(Holds, BitForBitAndByError) {
  const Verdict verdict = verify(config_of(GetParam().keys), {.ranks = GetParam().ranks});
  EXPECT_TRUE(verdict.holds()) << text(verdict);
}

INSTANTIATE_TEST_SUITE_P(
    Verify, Holds,
    testing::Values(
        Case{1, {}}, Case{2, {}}, Case{2, {"layout.sharding=zero3", "train.recompute=full"}},
        Case{2, {"layout.sharding=zero1", "train.precision=fp16", "model.dropout=0.1", "train.recompute=selective"}},
        Case{4, llama + Keys{"layout.sharding=three_level", "layout.ranks_per_node=4", "train.precision=bf16"}},
        Case{4, llama + Keys{"layout.sharding=hybrid", "layout.shard_group=2", "data.reset_at_documents=true"}},
        Case{4, {"layout.shard_gradients=2", "layout.shard_optimizer=4", "model.attention_dropout=0.1"}},
        Case{2, {"layout.tensor=2", "model.heads=4", "model.dropout=0.1", "model.attention_dropout=0.1"}},
        Case{4, llama + sparse + Keys{"layout.tensor=2", "layout.sequence_parallel=true", "layout.sharding=zero3"}},
        Case{4, llama + sparse + Keys{"layout.pipeline=2", "layout.context=2", "train.recompute=full"}},
        Case{4, llama + sparse + Keys{"layout.experts=2", "layout.sharding=zero3", "train.recompute=full"}},
        Case{4, llama + sparse +
                    Keys{"layout.experts=2", "layout.tensor=2", "layout.sequence_parallel=true", "layout.pipeline=2",
                         "layout.schedule=zb-h1"}},
        Case{6, llama + sparse +
                    Keys{"train.global_batch=12", "layout.experts=3", "layout.sharding=zero2", "train.precision=bf16"}},
        Case{2, llama + sparse + Keys{"layout.pipeline=2", "layout.schedule=zb-h1", "train.precision=bf16"}},
        Case{4, llama + Keys{"layout.tensor=4", "layout.sequence_parallel=true", "data.reset_at_documents=true"}},
        Case{4, llama + Keys{"layout.tensor=2", "layout.sequence_parallel=true", "layout.sharding=zero3"}},
        Case{2, {"layout.pipeline=2", "train.micro_batch=2"}},
        Case{4, {"layout.pipeline=2", "layout.schedule=zb-h1", "layout.sharding=zero3", "train.micro_batch=2"}},
        Case{8, llama + Keys{"layout.pipeline=2", "layout.tensor=2", "layout.sharding=zero1", "layout.schedule=zb-v",
                             "layout.chunks=2", "layout.sequence_parallel=true", "train.micro_batch=1",
                             "train.recompute=full"}},
        Case{2, {"layout.sharding=zero3", "layout.gather_type=bf16", "layout.reduce_type=bf16"}},
        Case{2, {"layout.sharding=zero1", "layout.update_type=bf16"}},
        Case{2, {"layout.context=2", "layout.context_route=ring", "model.dropout=0.1"}},
        Case{4, llama + Keys{"layout.context=2", "layout.context_route=gather", "layout.sharding=zero3",
                             "data.reset_at_documents=true", "train.recompute=full"}},
        Case{4, llama + Keys{"layout.context=2", "layout.context_route=heads", "layout.tensor=2",
                             "layout.sequence_parallel=true", "model.attention_dropout=0.1"}},
        Case{8, llama + Keys{"layout.context=4", "layout.pipeline=2", "layout.sharding=zero1", "train.precision=bf16",
                             "train.recompute=selective"}},
        Case{4, llama + Keys{"layout.context=4", "model.window=6", "data.reset_at_documents=true"}},
        Case{4,
             {"layout.sharding=three_level", "layout.ranks_per_node=2", "layout.gather_type=int8",
              "layout.reduce_type=int4", "layout.update_type=fp8"}},
        Case{4,
             {"layout.sharding=three_level", "layout.ranks_per_node=2", "layout.reduce_type=int4",
              "layout.error_feedback=true", "train.micro_batch=1"}}));

// The verdict if the `nth` call of one rank with this label is corrupted.
Verdict verdict_with_fault(const Keys& keys, int64_t rank, const comm::Label& label, int64_t nth) {
  const auto decorate = [=](comm::World& world) {
    auto seen = std::make_shared<int64_t>(0);
    const auto hits = [=](int64_t of, const mesh::Group&, const comm::Call& call) {
      const auto is = [](const char* a, const char* b) { return std::string_view(a) == b; };
      const bool matches =
          is(call.label.what, label.what) && is(call.label.phase, label.phase) && call.label.segment == label.segment;
      return of == rank && matches && ++*seen == nth;
    };
    return comm::make_faulty_world(world, {{.effect = comm::Fault::Effect::corrupt, .hits = hits}});
  };
  return verify(config_of(keys), {.ranks = 2, .decorate = decorate});
}

// Micro-batches of each rank in each step, after shrinking.
constexpr int64_t micro_batches = 3;

// Each step has one micro-batch, since a change of the last bit in one of several micro-batches can vanish in their
// sum.
TEST(VerifyFindsAFault, FaultInASumOfGradients) {
  const Verdict verdict =
      verdict_with_fault({"layout.sharding=zero2", "train.global_batch=4"}, 1, {"reduce gradients", 2, "backward"}, 2);
  EXPECT_FALSE(verdict.holds());
  EXPECT_FALSE(verdict.bitwise());
  ASSERT_TRUE(verdict.divergence.has_value());
  EXPECT_EQ(verdict.divergence->step, 2);
  EXPECT_EQ(verdict.divergence->segment, 2);
  EXPECT_EQ(verdict.divergence->segment_name, "blocks.1");
  EXPECT_EQ(verdict.divergence->operation, "reduce gradients");
  EXPECT_THAT(verdict.divergence->tensor, HasSubstr("blocks.1."));
  // One bit of one element differs.
  EXPECT_THAT(verdict.divergence->what, AllOf(HasSubstr("step 2, segment 2 (blocks.1)"), HasSubstr(", 1 elements")));
  const auto named = std::ranges::find(verdict.tensors, verdict.divergence->tensor, &TensorVerdict::name);
  ASSERT_NE(named, verdict.tensors.end());
  EXPECT_GT(named->differences[0].elements, 0);
  EXPECT_THAT(text(verdict), HasSubstr("DOES NOT HOLD"));
}

TEST(VerifyFindsAFault, FaultInAGatherOfWeights) {
  const Verdict verdict = verdict_with_fault({"layout.sharding=zero3", "layout.prefetch=0"}, 1,
                                             {"gather weights", 1, "forward"}, micro_batches + 1);
  ASSERT_TRUE(verdict.divergence.has_value());
  EXPECT_EQ(verdict.divergence->step, 2);
  EXPECT_EQ(verdict.divergence->segment, 1);
  EXPECT_EQ(verdict.divergence->rank, 1);
  EXPECT_EQ(verdict.divergence->micro_batch, 0);
  EXPECT_EQ(verdict.divergence->operation, "gather weights");
  EXPECT_THAT(verdict.divergence->tensor, HasSubstr("blocks.0."));
  EXPECT_FALSE(verdict.holds());
}

TEST(VerifyFindsAFault, FaultInAGatherForBackward) {
  for (const std::string recompute : {"none", "selective", "full"}) {
    const Verdict verdict = verdict_with_fault({"layout.sharding=zero3", "train.recompute=" + recompute}, 0,
                                               {"gather weights", 1, "backward"}, 2);
    ASSERT_TRUE(verdict.divergence.has_value());
    EXPECT_EQ(verdict.divergence->step, 1);
    EXPECT_EQ(verdict.divergence->segment, 1);
    EXPECT_EQ(verdict.divergence->rank, 0);
    EXPECT_EQ(verdict.divergence->micro_batch, 1);
    EXPECT_EQ(verdict.divergence->operation, "gather weights");
    EXPECT_THAT(verdict.divergence->what, HasSubstr("backward computes with"));
  }
}

// No step follows that would compute with the last updated weights.
TEST(VerifyFindsAFault, FaultInTheLastGatherOfUpdatedWeights) {
  const Verdict verdict = verdict_with_fault({"layout.sharding=zero1"}, 1, {"gather updated weights", 2, "step"}, 4);
  ASSERT_TRUE(verdict.divergence.has_value());
  EXPECT_EQ(verdict.divergence->step, 4);
  EXPECT_EQ(verdict.divergence->rank, 1);
  EXPECT_EQ(verdict.divergence->segment, 2);
  EXPECT_EQ(verdict.divergence->operation, "gather weights");
  EXPECT_FALSE(verdict.holds());
}

TEST(VerifyFindsAFault, FaultInTheSumOfLosses) {
  const Verdict verdict = verdict_with_fault({}, 0, {"loss", -1, ""}, 2);
  ASSERT_TRUE(verdict.divergence.has_value());
  EXPECT_EQ(verdict.divergence->step, 2);
  EXPECT_EQ(verdict.divergence->operation, "sum of losses");
  EXPECT_FALSE(verdict.holds());
}

// Rank 1 contributes gradients that are too large by 1e-4, in a call that the runs with sums in rank order do not make.
TEST(VerifyFindsAFault, LostAccuracyOfTheLayoutAsConfigured) {
  const auto decorate = [](comm::World& world) {
    const auto enlarges = [](int64_t rank, const mesh::Group&, const comm::Call& call) {
      if (rank != 1 || std::string_view(call.label.what) != "all-reduce gradients") return false;
      auto* values = static_cast<float*>(call.to);
      std::for_each(values, values + call.count, [](float& value) { value *= 1.0001F; });
      return false;
    };
    return comm::make_faulty_world(world, {{.hits = enlarges}});
  };
  const Verdict verdict = verify(config_of({}), {.ranks = 2, .decorate = decorate});
  EXPECT_TRUE(verdict.bitwise());
  EXPECT_FALSE(verdict.accurate());
  EXPECT_FALSE(verdict.holds());
  EXPECT_THAT(text(verdict), AllOf(HasSubstr("accuracy  NOT kept"), HasSubstr(" !"), HasSubstr("DOES NOT HOLD")));
  EXPECT_FALSE(json(verdict).at("holds").get<bool>());
}

TEST(ErrorPair, HoldsUpToTwiceTheErrorOfOneRank) {
  EXPECT_TRUE((ErrorPair{.ours = 2, .one_rank = 1}.holds()));
  EXPECT_FALSE((ErrorPair{.ours = 2.01, .one_rank = 1}.holds()));
  EXPECT_TRUE((ErrorPair{.ours = 2.01, .one_rank = 1, .rounding = 0.02}.holds()));
  EXPECT_FALSE((ErrorPair{.ours = std::nan(""), .one_rank = 1}.holds()));
}

TEST(Shrunk, KeepsWhatMattersToALayout) {
  const config::Config large =
      config_of({"model.layers=96", "model.width=8192", "model.heads=64", "model.kv_heads=8", "model.sequence=4096",
                 "model.vocabulary=50257", "model.vocabulary_multiple=128", "model.ffn_width=28672",
                 "train.global_batch=1536", "train.micro_batch=4", "train.precision=bf16", "train.recompute=full",
                 "layout.sharding=zero3", "model.norm=rmsnorm", "model.activation=swiglu"});
  const config::Config small = shrunk(large, 8, 3);
  EXPECT_EQ(models::gpt::model_of(small).layers, 2);
  EXPECT_EQ(models::gpt::model_of(small).kv_heads, 2);
  EXPECT_EQ(models::gpt::model_of(small).heads / models::gpt::model_of(small).kv_heads, 8);
  EXPECT_EQ(models::gpt::model_of(small).width,
            models::gpt::model_of(small).heads * models::gpt::model_of(small).head_dim);
  EXPECT_EQ(models::gpt::model_of(small).ffn_width, models::gpt::model_of(small).width * 7 / 2);
  EXPECT_GT(models::gpt::model_of(small).padded_vocabulary(), models::gpt::model_of(small).vocabulary);
  EXPECT_EQ(small.train.global_batch, 8 * 3 * small.train.micro_batch);
  EXPECT_EQ(small.layout, large.layout);
  EXPECT_EQ(small.train.precision, large.train.precision);
  EXPECT_EQ(small.train.recompute, large.train.recompute);
  EXPECT_EQ(models::gpt::model_of(small).norm, models::gpt::model_of(large).norm);
  EXPECT_EQ(models::gpt::model_of(small).tied_head, models::gpt::model_of(large).tied_head);
  // The shrunk configuration must be valid.
  EXPECT_EQ(config::parse(config::dump(small), "small.toml", models::families()), small);
}

TEST(Shrunk, FitsTheTensorRanks) {
  for (const std::string tensor : {"2", "4", "8", "16"}) {
    const config::Config large = config_of(
        {"model.width=8192", "model.heads=64", "model.kv_heads=8", "model.sequence=4096", "model.vocabulary=50257",
         "model.vocabulary_multiple=128", "model.ffn_width=28672", "train.global_batch=1536", "train.micro_batch=4",
         "layout.tensor=" + tensor, "layout.sequence_parallel=true"});
    const config::Config small = shrunk(large, 16, 3);
    EXPECT_EQ(config::parse(config::dump(small), "small.toml", models::families()), small);
    EXPECT_LE(models::gpt::model_of(small).width, 512);
  }
}

TEST(Verify, TakesTheFewestRanksThatFit) {
  const Keys keys = {"layout.sharding=hybrid", "layout.shard_group=3", "train.global_batch=18"};
  EXPECT_EQ(verify(config_of(keys), {.steps = 1}).ranks, 3);
  EXPECT_THAT(
      [] {
        verify(config_of({"train.global_batch=17", "train.micro_batch=17"}), {.ranks = 2});
      },
      ThrowsMessage<UserError>(HasSubstr("are not divisible among 2 data-parallel ranks")));
}

}  // namespace
}  // namespace terrace::verify
