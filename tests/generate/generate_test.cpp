// Tests that generation with and without the cache gives equal logits, and what ends a continuation.
#include "terrace/generate/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "tests/generate/tiny_models.h"

namespace terrace::generate {
namespace {

using testing::HasSubstr;

struct Generation : testing::TestWithParam<models::gpt::ModelConfig> {
  const models::gpt::ModelConfig& config() const { return GetParam(); }

  std::vector<int64_t> tokens(int64_t count) const {
    std::vector<int64_t> drawn;
    for (int64_t i = 0; i < count; ++i) {
      drawn.push_back(philox_at({1, 1}, static_cast<uint64_t>(i), 0)[0] % config().vocabulary);
    }
    return drawn;
  }
};

std::string kind_name(const testing::TestParamInfo<models::gpt::ModelConfig>& info) {
  return info.param.positions == models::gpt::Positions::learned ? "gpt2_like" : "llama_like";
}

INSTANTIATE_TEST_SUITE_P(Models, Generation, testing::Values(gpt2_like(), llama_like()), kind_name);

// Returns logits of shape [T, V] in double precision.
at::Tensor cacheless_logits(models::Model& model, const std::vector<int64_t>& tokens) {
  const at::NoGradGuard no_grad;
  const models::Batch batch{.samples = {}, .tensors = {{"tokens", at::tensor(tokens, at::kLong).unsqueeze(0)}}};
  const at::Tensor hidden = model.forward(0, model.num_units() - 1, {}, batch, {}).front();
  return dynamic_cast<models::Generator&>(model).logits(hidden, {}).squeeze(0).to(at::kDouble);
}

at::Tensor cached_logits(models::Model& model, const std::vector<int64_t>& tokens, const std::vector<int64_t>& pieces) {
  const at::NoGradGuard no_grad;
  CachedModel cached(model);
  std::vector<at::Tensor> rows;
  std::span<const int64_t> left = tokens;
  for (int64_t piece : pieces) {
    rows.push_back(dynamic_cast<models::Generator&>(model)
                       .logits(cached.hidden(left.first(piece)), {})
                       .squeeze(0)
                       .to(at::kDouble));
    left = left.subspan(piece);
  }
  return at::cat(rows);
}

double distance(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).norm().item<double>(); }

// The reference is the model with the same weights in double precision.
TEST_P(Generation, CachedLogitsAreAsExactAsCachelessOnes) {
  const std::vector<int64_t> sequence = tokens(20);
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto model = build(config(), type);
    const auto exact_model = build(config(), at::kDouble);
    for (size_t i = 0; i < model->parameters().size(); ++i) {
      exact_model->parameters()[i]->value.detach().copy_(model->parameters()[i]->value.detach());
    }
    const at::Tensor exact = cacheless_logits(*exact_model, sequence);
    const double own_error = distance(cacheless_logits(*model, sequence), exact);
    ASSERT_GT(own_error, 0.0);
    for (const std::vector<int64_t>& pieces : {std::vector<int64_t>{20}, std::vector<int64_t>(20, 1),
                                               std::vector<int64_t>{7, 13}, std::vector<int64_t>{5, 1, 1, 10, 3}}) {
      const double error = distance(cached_logits(*model, sequence, pieces), exact);
      EXPECT_LE(error, 2 * own_error) << c10::toString(type) << " in " << pieces.size() << " pieces";
    }
  }
}

TEST_P(Generation, LogitsDependOnEveryEarlierToken) {
  const auto model = build(config());
  const std::vector<int64_t> sequence = tokens(8);
  CachedModel cached(*model);
  const std::vector<float> before = cached.next_logits(sequence);
  for (size_t i = 0; i < sequence.size(); ++i) {
    std::vector<int64_t> changed = sequence;
    changed[i] = (changed[i] + 1) % config().vocabulary;
    cached.truncate(0);
    EXPECT_NE(cached.next_logits(changed), before) << i;
  }
}

TEST_P(Generation, WhatIsTruncatedIsForgotten) {
  const auto model = build(config());
  const std::vector<int64_t> sequence = tokens(9);
  CachedModel cached(*model);
  cached.hidden(std::span(sequence).first(4));
  const std::vector<float> before = cached.next_logits(std::span(sequence).subspan(4));
  cached.truncate(4);
  cached.hidden(std::vector<int64_t>{1, 2, 3});
  cached.truncate(4);
  EXPECT_EQ(cached.next_logits(std::span(sequence).subspan(4)), before);
}

TEST_P(Generation, GreedyTextEqualsRecomputingEverythingEachTime) {
  const auto model = build(config());
  std::vector<int64_t> sequence = tokens(3);
  CachedModel cached(*model);
  const Request request{.prompt = sequence, .max_tokens = 18, .sampling = {.temperature = 0}};
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < request.max_tokens; ++i) {
    const at::Tensor logits = cacheless_logits(*model, sequence);
    expected.push_back(logits.select(0, logits.size(0) - 1).argmax().item<int64_t>());
    sequence.push_back(expected.back());
  }
  std::vector<int64_t> streamed;
  const auto found = generate(cached, request, [&](int64_t, int64_t token) { streamed.push_back(token); });
  EXPECT_EQ(found.at(0).tokens, expected);
  EXPECT_EQ(streamed, expected);
  EXPECT_EQ(found[0].finish, Finish::max_tokens);
}

TEST_P(Generation, TheSameSeedGivesTheSameText) {
  const auto model = build(config());
  CachedModel cached(*model);
  Request request{.prompt = tokens(4), .max_tokens = 15, .samples = 3, .sampling = {.temperature = 3.0, .seed = 11}};
  const auto ignore = [](int64_t, int64_t) {};
  const auto first = generate(cached, request, ignore);
  const auto again = generate(cached, request, ignore);
  ASSERT_EQ(first.size(), 3u);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].tokens, again[i].tokens);
  EXPECT_NE(first[0].tokens, first[1].tokens);
  EXPECT_NE(first[1].tokens, first[2].tokens);
  request.samples = 1;
  EXPECT_EQ(generate(cached, request, ignore)[0].tokens, first[0].tokens);
  request.sampling.seed = 12;
  EXPECT_NE(generate(cached, request, ignore)[0].tokens, first[0].tokens);
}

TEST_P(Generation, TheEndTokenEndsTheTextAndIsNotPartOfIt) {
  const auto model = build(config());
  CachedModel cached(*model);
  Request request{.prompt = tokens(4), .max_tokens = 12, .sampling = {.temperature = 3.0}};
  const auto ignore = [](int64_t, int64_t) {};
  const std::vector<int64_t> open = generate(cached, request, ignore)[0].tokens;
  request.end_token = open[5];
  const auto closed = generate(cached, request, ignore)[0];
  const auto first = std::ranges::find(open, open[5]);
  EXPECT_EQ(closed.tokens, std::vector<int64_t>(open.begin(), first));
  EXPECT_EQ(closed.finish, Finish::end_token);
}

TEST_P(Generation, StopsWhereTheContextEnds) {
  const auto model = build(config());
  CachedModel cached(*model);
  const auto ignore = [](int64_t, int64_t) {};
  for (int64_t length : {1, 20, 23, 24}) {
    const auto found = generate(cached, {.prompt = tokens(length), .max_tokens = 1000, .sampling = {}}, ignore)[0];
    // The token after the last position can still be predicted.
    EXPECT_EQ(static_cast<int64_t>(found.tokens.size()), config().sequence - length + 1);
    EXPECT_EQ(found.finish, Finish::context);
  }
}

TEST_P(Generation, DrawsOnlyBelowTheGivenVocabulary) {
  const auto model = build(config());
  CachedModel cached(*model);
  const Request request{
      .prompt = tokens(2), .max_tokens = 20, .samples = 10, .sampling = {.temperature = 50.0}, .vocabulary = 9};
  generate(cached, request, [](int64_t, int64_t token) { EXPECT_LT(token, 9); });
}

TEST_P(Generation, RefusesWhatDoesNotFitWithNumbers) {
  const auto model = build(config());
  CachedModel cached(*model);
  const auto refusal = [&](const Request& request) -> std::string {
    try {
      generate(cached, request, [](int64_t, int64_t) { ADD_FAILURE() << "a token was drawn"; });
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.prompt = tokens(25), .sampling = {}}),
              HasSubstr("the prompt has 25 tokens, but the model's context is 24 (model.sequence): shorten it by 1"));
  EXPECT_THAT(refusal({.prompt = {}, .sampling = {}}), HasSubstr("the prompt is empty"));
  EXPECT_THAT(refusal({.prompt = {67}, .sampling = {}}), HasSubstr("token 67, but the model's tokens are 0 to 66"));
  EXPECT_THAT(refusal({.prompt = {1}, .max_tokens = 0, .sampling = {}}), HasSubstr("max-tokens = 0"));
  EXPECT_THAT(refusal({.prompt = {1}, .samples = 0, .sampling = {}}), HasSubstr("samples = 0"));
  EXPECT_THAT(refusal({.prompt = {1}, .sampling = {.top_p = 2}}), HasSubstr("top-p = 2"));
}

}  // namespace
}  // namespace terrace::generate
