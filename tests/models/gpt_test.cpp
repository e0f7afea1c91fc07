// Tests the GPT: recompute, deferred weight gradients, dropout, the key-value cache, units and marks.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "terrace/base/error.h"
#include "terrace/models/gpt/model.h"
#include "terrace/models/transformer/blocks.h"
#include "terrace/ops/attention/key_value_cache.h"
#include "tests/models/small_models.h"
#include "tests/pytorch/judge.h"

namespace terrace::models {
namespace {

struct Outcome {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;

  bool operator==(const Outcome& other) const {
    if (!loss.equal(other.loss)) return false;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].equal(other.gradients[i])) return false;
    }
    return true;
  }
};

Outcome outcome_of(const models::gpt::ModelConfig& config, at::ScalarType type, const Pass& pass, bool full = false,
                   const std::vector<Batch>& batches = {}, const std::set<int64_t>& halved = {}) {
  const auto model = initialized(config, type);
  Outcome outcome;
  for (const Batch& batch : batches.empty() ? std::vector{some_batch(config, 3)} : batches) {
    const at::Tensor loss = loss_and_gradients(*model, batch, pass, full, halved);
    outcome.loss = outcome.loss.defined() ? outcome.loss.add(loss) : loss;
  }
  if (pass.deferred) pass.deferred->run();
  for (const nn::Parameter* parameter : model->parameters()) outcome.gradients.push_back(parameter->gradient);
  return outcome;
}

models::gpt::ModelConfig with_dropout(models::gpt::ModelConfig config) {
  config.dropout = 0.2;
  config.attention_dropout = 0.1;
  return config;
}

TEST(Gpt, HalvesOfABlockComputeWhatTheBlockDoes) {
  for (const SmallModel& small : small_models()) {
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const auto& config : {small.config, with_dropout(small.config)}) {
        ops::WeightGradientQueue later;
        Pass pass{.training = true, .seed = 5, .step = 2, .gradient_scales = {0.1}};
        const Outcome whole = outcome_of(config, type, pass);
        std::set<int64_t> layers;
        for (int64_t layer = 0; layer < config.layers; ++layer) layers.insert(layer);
        EXPECT_EQ(outcome_of(config, type, pass, false, {}, layers), whole) << small.name << " " << type;
        EXPECT_EQ(outcome_of(config, type, pass, true, {}, {0}), whole) << small.name << " " << type;
        pass.deferred = &later;
        EXPECT_EQ(outcome_of(config, type, pass, false, {}, {0}), whole) << small.name << " " << type;
      }
    }
  }
}

TEST(Gpt, RecomputeChangesNoBit) {
  for (const SmallModel& small : small_models()) {
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const auto& config : {small.config, with_dropout(small.config)}) {
        Pass pass{.training = true, .seed = 5, .step = 2, .gradient_scales = {0.1}};
        const Outcome kept = outcome_of(config, type, pass);
        EXPECT_TRUE(std::isfinite(kept.loss.item<double>()));
        EXPECT_EQ(outcome_of(config, type, pass, /*full=*/true), kept) << small.name << " " << type;
        pass.recompute_attention = true;
        EXPECT_EQ(outcome_of(config, type, pass), kept) << small.name << " " << type;
        EXPECT_EQ(outcome_of(config, type, pass, /*full=*/true), kept) << small.name << " " << type;
      }
    }
  }
}

TEST(Gpt, DeferredWeightGradientsChangeNoBit) {
  for (const SmallModel& small : small_models()) {
    Pass pass{.training = true};
    const Outcome immediate = outcome_of(small.config, at::kFloat, pass);
    ops::WeightGradientQueue queue;
    pass.deferred = &queue;
    EXPECT_EQ(outcome_of(small.config, at::kFloat, pass), immediate) << small.name;
  }
}

TEST(Gpt, DropoutIsReproducibleAndChangesWithTheStep) {
  const auto config = with_dropout(small_models()[0].config);
  const Pass pass{.training = true, .seed = 5, .step = 2};
  const Outcome first = outcome_of(config, at::kFloat, pass);
  EXPECT_EQ(outcome_of(config, at::kFloat, pass), first);
  EXPECT_FALSE(outcome_of(config, at::kFloat, {.training = true, .seed = 5, .step = 3}) == first);
  EXPECT_FALSE(outcome_of(config, at::kFloat, {.training = true, .seed = 6, .step = 2}) == first);
}

TEST(Gpt, DropoutDoesNotDependOnTheMicroBatches) {
  const auto config = with_dropout(small_models()[0].config);
  const Batch whole = some_batch(config, 3);
  std::vector<Batch> singles;
  for (int64_t i = 0; i < 3; ++i) {
    singles.push_back(
        {.samples = whole.samples.narrow(0, i, 1),
         .tensors = {{"tokens", whole["tokens"].narrow(0, i, 1)}, {"targets", whole["targets"].narrow(0, i, 1)}}});
  }
  const Pass pass{.training = true, .seed = 5, .step = 2};
  const Outcome together = outcome_of(config, at::kDouble, pass, false, {whole});
  const Outcome apart = outcome_of(config, at::kDouble, pass, false, singles);
  // In double precision another order of the sums changes the loss by about 1e-15; another dropout mask would change
  // its first digits.
  EXPECT_NEAR(apart.loss.item<double>(), together.loss.item<double>(), 1e-10 * together.loss.item<double>());
  for (size_t i = 0; i < apart.gradients.size(); ++i) {
    EXPECT_TRUE(apart.gradients[i].allclose(together.gradients[i], 1e-9, 1e-11)) << i;
  }
}

TEST(Gpt, EvaluationDrawsNoDropout) {
  const auto plain = small_models()[0].config;
  at::NoGradGuard no_grad;
  const Batch batch = some_batch(plain, 2);
  const auto loss = [&](const models::gpt::ModelConfig& config) {
    const auto model = initialized(config);
    return loss_of(*model, hidden_of(*model, batch, {}), batch, {});
  };
  EXPECT_TRUE(loss(with_dropout(plain)).allclose(loss(plain), 1e-6));
}

ops::KeyValueCache cache_for(const models::gpt::ModelConfig& config, int64_t slots, int64_t length,
                             at::ScalarType type = at::kFloat) {
  return {config.layers, slots, config.kv_heads, length, config.head_dim, at::TensorOptions(type)};
}

// Logits of all tokens, fed in pieces of the given sizes through a cache.
at::Tensor cached_logits(Model& model, ops::KeyValueCache cache, const at::Tensor& tokens,
                         const std::vector<int64_t>& pieces) {
  ContinuedSequences continued(cache);
  const Pass pass{.extension = &continued};
  std::vector<at::Tensor> sequences;
  for (int64_t slot = 0; slot < tokens.size(0); ++slot) {
    cache.select({slot});
    std::vector<at::Tensor> parts;
    for (int64_t piece : pieces) {
      const int64_t begin = cache.size(slot);
      Batch batch;
      batch.tensors["tokens"] = tokens.narrow(0, slot, 1).narrow(1, begin, piece);
      batch.tensors["positions"] = at::arange(begin, begin + piece).unsqueeze(0);
      parts.push_back(logits_of(model, hidden_of(model, batch, pass)));
      cache.advance(piece);
    }
    sequences.push_back(at::cat(parts, 1));
  }
  return at::cat(sequences);
}

TEST(Gpt, TheKeyValueCacheGivesTheLogitsOfTheWholeSequence) {
  at::NoGradGuard no_grad;
  for (const SmallModel& small : small_models()) {
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      if (chooses_by_last_bits(small.config, type)) continue;
      const auto model = initialized(small.config, type);
      // The reference uses the same rounded weights in double precision.
      const auto exact_model = gpt::build_model(small.config, {.type = at::kDouble});
      const auto from = model->parameters(), to = exact_model->parameters();
      for (size_t i = 0; i < from.size(); ++i) to[i]->value.copy_(from[i]->value);
      nn::initialize(exact_model->buffers(), 3);
      const Batch batch = some_batch(small.config, 2);
      const at::Tensor exact = logits_of(*exact_model, hidden_of(*exact_model, batch, {}));
      const at::Tensor whole = logits_of(*model, hidden_of(*model, batch, {}));
      EXPECT_EQ(whole.size(2), small.config.vocabulary);
      for (const auto& pieces : {std::vector<int64_t>{19}, {1, 18}, {12, 1, 1, 5}, std::vector<int64_t>(19, 1)}) {
        const at::Tensor cached =
            cached_logits(*model, cache_for(small.config, 2, small.config.sequence, type), batch["tokens"], pieces);
        EXPECT_TRUE(testing::as_accurate(cached, whole, exact, type))
            << small.name << " " << type << " in " << pieces.size();
      }
    }
  }
}

TEST(Gpt, MoreTokensThanTheModelOrTheCacheHoldsAreRefused) {
  at::NoGradGuard no_grad;
  for (const SmallModel& small : small_models()) {
    const auto model = initialized(small.config);
    Batch batch;
    batch.tensors["tokens"] = at::zeros({1, 20}, at::kLong);
    EXPECT_THROW(hidden_of(*model, batch, {}), UserError) << small.name;
    ops::KeyValueCache cache = cache_for(small.config, 1, 8);
    cache.select({0});
    batch.tensors["tokens"] = at::zeros({1, 9}, at::kLong);
    ContinuedSequences continued(cache);
    EXPECT_THROW(hidden_of(*model, batch, {.extension = &continued}), UserError) << small.name;
  }
}

TEST(Gpt, UnitsHoldEveryParameterOnce) {
  for (const SmallModel& small : small_models()) {
    const auto model = gpt::build_model(small.config, {.device = at::kMeta});
    EXPECT_EQ(model->num_units(), 2 * small.config.layers + 2);
    std::multiset<nn::Parameter*> held;
    for (int64_t unit = 0; unit < model->num_units(); ++unit) {
      for (nn::Parameter* parameter : model->unit_parameters(unit)) held.insert(parameter);
    }
    const auto all = model->parameters();
    EXPECT_EQ(held, std::multiset<nn::Parameter*>(all.begin(), all.end()));
  }
}

TEST(Gpt, OutputProjectionsStartSmaller) {
  const auto model = gpt::build_model(small_models()[0].config, {.device = at::kMeta});
  for (const nn::Parameter* parameter : model->parameters()) {
    if (parameter->value.dim() != 2) continue;
    const bool residual =
        parameter->name.ends_with("attention.output.weight") || parameter->name.ends_with("second.weight");
    EXPECT_DOUBLE_EQ(parameter->initial.value, residual ? 0.2 / std::sqrt(4.0) : 0.2) << parameter->name;
  }
}

TEST(BuildModelDeathTest, AParameterWithoutAMarkEndsTheProgram) {
  const auto model = gpt::build_model(small_models()[0].config, {.device = at::kMeta});
  nn::Parameter* parameter = model->parameters()[4];
  parameter->mark = {};
  EXPECT_DEATH(check_marks(model->parameters()), parameter->name);
}

}  // namespace
}  // namespace terrace::models
