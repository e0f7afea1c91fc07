// Tests that generation with and without the cache gives equal logits, and what ends a continuation.
#include "terrace/generate/generate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/models/gpt/cached_sequences.h"
#include "tests/generate/tiny_models.h"

namespace terrace::generate {
namespace {

using models::gpt::CachedSequences;
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
  return model.outputs(0, {}, batch, {}).at("logits").squeeze(0).to(at::kDouble);
}

at::Tensor cached_logits(const models::gpt::ModelConfig& config, models::Model& model,
                         const std::vector<int64_t>& tokens, const std::vector<int64_t>& pieces) {
  const at::NoGradGuard no_grad;
  CachedSequences cached(config, model, 1, 24);
  std::vector<at::Tensor> rows;
  std::span<const int64_t> left = tokens;
  for (int64_t piece : pieces) {
    const models::Outputs outputs = model.outputs(model.num_units() - 1, {cached.hidden(0, left.first(piece))}, {}, {});
    rows.push_back(outputs.at("logits").squeeze(0).to(at::kDouble));
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
      const double error = distance(cached_logits(config(), *model, sequence, pieces), exact);
      EXPECT_LE(error, 2 * own_error) << c10::toString(type) << " in " << pieces.size() << " pieces";
    }
  }
}

// The kernels of training are faster on whole prompts than those of decoding.
TEST_P(Generation, APromptIsComputedByTheKernelsOfTraining) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> sequence = tokens(20);
  const auto model = build(config());
  const auto trained = models::gpt::build_model(config(), {.device = at::kCPU});
  nn::initialize(trained->parameters(), 3);
  const models::Batch batch{.samples = {}, .tensors = {{"tokens", at::tensor(sequence, at::kLong).unsqueeze(0)}}};
  const at::Tensor expected = trained->forward(0, trained->num_units() - 1, {}, batch, {}).front();
  EXPECT_TRUE(CachedSequences(config(), *model, 1, 24).hidden(0, sequence).equal(expected));
}

TEST_P(Generation, LogitsDependOnEveryEarlierToken) {
  const auto model = build(config());
  const std::vector<int64_t> sequence = tokens(8);
  CachedSequences cached(config(), *model, 1, 24);
  const std::vector<float> before = cached.next_logits(0, sequence);
  for (size_t i = 0; i < sequence.size(); ++i) {
    std::vector<int64_t> changed = sequence;
    changed[i] = (changed[i] + 1) % config().vocabulary;
    cached.truncate(0, 0);
    EXPECT_NE(cached.next_logits(0, changed), before) << i;
  }
}

TEST_P(Generation, ForgetsTruncatedTokens) {
  const auto model = build(config());
  const std::vector<int64_t> sequence = tokens(9);
  CachedSequences cached(config(), *model, 2, 24);
  cached.hidden(1, std::span(sequence).first(4));
  const std::vector<float> before = cached.next_logits(1, std::span(sequence).subspan(4));
  cached.truncate(1, 4);
  cached.hidden(1, std::vector<int64_t>{1, 2, 3});
  cached.truncate(1, 4);
  EXPECT_EQ(cached.next_logits(1, std::span(sequence).subspan(4)), before);
  cached.copy(1, 0, 4);
  EXPECT_EQ(cached.next_logits(0, std::span(sequence).subspan(4)), before);
}

TEST_P(Generation, GreedyTextEqualsRecomputingEverythingEachTime) {
  const auto model = build(config());
  std::vector<int64_t> sequence = tokens(3);
  const Request request{.prompts = {sequence}, .max_tokens = 18, .sampling = {.temperature = 0}};
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < request.max_tokens; ++i) {
    const at::Tensor logits = cacheless_logits(*model, sequence);
    expected.push_back(logits.select(0, logits.size(0) - 1).argmax().item<int64_t>());
    sequence.push_back(expected.back());
  }
  std::vector<int64_t> streamed;
  const auto found = generate(whole(config()), *model, request,
                              {.on_token = [&](ContinuationId, int64_t token) { streamed.push_back(token); }});
  EXPECT_EQ(found.at(0).tokens, expected);
  EXPECT_EQ(streamed, expected);
  EXPECT_EQ(found[0].finish, Finish::max_tokens);
}

TEST_P(Generation, TheSameSeedGivesTheSameText) {
  const auto model = build(config());
  Request request{.prompts = {tokens(4)}, .max_tokens = 15, .samples = 3, .sampling = {.temperature = 3.0, .seed = 11}};
  const auto first = generate(whole(config()), *model, request);
  const auto again = generate(whole(config()), *model, request);
  ASSERT_EQ(first.size(), 3u);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].tokens, again[i].tokens);
  EXPECT_NE(first[0].tokens, first[1].tokens);
  EXPECT_NE(first[1].tokens, first[2].tokens);
  request.samples = 1;
  EXPECT_EQ(generate(whole(config()), *model, request)[0].tokens, first[0].tokens);
  request.sampling.seed = 12;
  EXPECT_NE(generate(whole(config()), *model, request)[0].tokens, first[0].tokens);
}

TEST_P(Generation, TheEndTokenEndsTheTextAndIsNotPartOfIt) {
  const auto model = build(config());
  Request request{.prompts = {tokens(4)}, .max_tokens = 12, .sampling = {.temperature = 3.0}};
  const std::vector<int64_t> open = generate(whole(config()), *model, request)[0].tokens;
  request.end_token = open[5];
  const auto closed = generate(whole(config()), *model, request)[0];
  const auto first = std::ranges::find(open, open[5]);
  EXPECT_EQ(closed.tokens, std::vector<int64_t>(open.begin(), first));
  EXPECT_EQ(closed.finish, Finish::end_token);
  // The other tokens that end texts end them in the same way.
  request.end_token = -1;
  request.more_end_tokens = {open[5], open[3]};
  const auto earlier = generate(whole(config()), *model, request)[0];
  EXPECT_EQ(earlier.tokens,
            std::vector<int64_t>(open.begin(), std::ranges::find_first_of(open, request.more_end_tokens)));
  EXPECT_EQ(earlier.finish, Finish::end_token);
}

TEST_P(Generation, StopsWhereTheContextEnds) {
  const auto model = build(config());
  for (int64_t length : {1, 20, 23, 24}) {
    const auto found =
        generate(whole(config()), *model, {.prompts = {tokens(length)}, .max_tokens = 1000, .sampling = {}})[0];
    // The token after the last position can still be predicted.
    EXPECT_EQ(static_cast<int64_t>(found.tokens.size()), config().sequence - length + 1);
    EXPECT_EQ(found.finish, Finish::context);
  }
}

TEST_P(Generation, DrawsOnlyBelowTheGivenVocabulary) {
  const auto model = build(config());
  const Request request{
      .prompts = {tokens(2)}, .max_tokens = 20, .samples = 10, .sampling = {.temperature = 50.0}, .vocabulary = 9};
  generate(whole(config()), *model, request, {.on_token = [](ContinuationId, int64_t token) { EXPECT_LT(token, 9); }});
}

TEST_P(Generation, RefusesWhatDoesNotFitWithNumbers) {
  const auto model = build(config());
  const auto refusal = [&](const Request& request) -> std::string {
    try {
      generate(whole(config()), *model, request,
               {.on_token = [](ContinuationId, int64_t) { ADD_FAILURE() << "a token was drawn"; }});
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.prompts = {tokens(2), tokens(25)}, .sampling = {}}),
              HasSubstr("the prompt has 25 tokens, but the model's context is 24 (model.sequence): shorten it by 1"));
  EXPECT_THAT(refusal({.prompts = {{}}, .sampling = {}}), HasSubstr("the prompt is empty"));
  EXPECT_THAT(refusal({.prompts = {{67}}, .sampling = {}}), HasSubstr("token 67, but the model's tokens are 0 to 66"));
  EXPECT_THAT(refusal({.prompts = {{1}}, .max_tokens = 0, .sampling = {}}), HasSubstr("max-tokens = 0"));
  EXPECT_THAT(refusal({.prompts = {{1}}, .samples = 0, .sampling = {}}), HasSubstr("samples = 0"));
  EXPECT_THAT(refusal({.prompts = {{1}}, .batch = 0, .sampling = {}}), HasSubstr("batch = 0"));
  EXPECT_THAT(refusal({.prompts = {}, .sampling = {}}), HasSubstr("there is no prompt"));
  EXPECT_THAT(refusal({.prompts = {{1}}, .sampling = {.top_p = 2}}), HasSubstr("top-p = 2"));
}

// Prompts of several lengths, some of whose continuations end early, with more continuations than places.
TEST_P(Generation, AContinuationDoesNotDependOnWhatIsDecodedWithIt) {
  at::set_num_threads(1);  // passes this small only wait for each other
  const std::vector<int64_t> drawn = tokens(40);
  std::vector<std::vector<int64_t>> prompts;
  for (int64_t length : {5, 1, 19, 2, 11}) prompts.emplace_back(drawn.begin() + length, drawn.begin() + 2 * length);
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto model = build(config(), type);
    for (const Sampling& sampling :
         {Sampling{.temperature = 0}, Sampling{.temperature = 2.0, .top_p = 0.9, .seed = 5}}) {
      const int64_t samples = sampling.temperature == 0 ? 1 : 3;
      Request request{.prompts = prompts, .max_tokens = 14, .samples = samples, .sampling = sampling, .end_token = 8};
      std::vector<std::vector<Continuation>> alone;
      std::set<size_t> lengths;
      for (const std::vector<int64_t>& prompt : prompts) {
        Request own = request;
        own.prompts = {prompt};
        own.batch = 1;
        alone.push_back(generate(whole(config()), *model, own));
        for (const Continuation& continuation : alone.back()) lengths.insert(continuation.tokens.size());
      }
      ASSERT_GT(lengths.size(), 1u) << "all continuations are equally long";
      for (int64_t batch : {1, 2, 4, 100}) {
        request.batch = batch;
        std::map<std::pair<size_t, int64_t>, std::vector<int64_t>> streamed;
        const auto found =
            generate(whole(config()), *model, request, {.on_token = [&](ContinuationId id, int64_t token) {
                       streamed[{id.prompt, id.sample}].push_back(token);
                     }});
        ASSERT_EQ(found.size(), prompts.size() * static_cast<size_t>(samples));
        for (size_t i = 0; i < found.size(); ++i) {
          const size_t prompt = i / static_cast<size_t>(samples), sample = i % static_cast<size_t>(samples);
          const Continuation& expected = alone[prompt][sample];
          EXPECT_EQ(found[i].tokens, expected.tokens)
              << c10::toString(type) << ", continuation " << i << " of " << batch;
          EXPECT_EQ(found[i].finish, expected.finish);
          EXPECT_EQ((streamed[{prompt, static_cast<int64_t>(sample)}]), expected.tokens);
        }
      }
    }
  }
}

// Texts could agree although bits differ.
TEST_P(Generation, LogitsHaveTheBitsThatTheyHaveAlone) {
  const std::vector<int64_t> drawn = tokens(9);
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto model = build(config(), type);
    CachedSequences together(config(), *model, 9, 24), alone(config(), *model, 1, 24);
    const std::vector<int64_t> slots{8, 0, 3, 4, 1, 2, 7, 5, 6};
    for (size_t i = 0; i < slots.size(); ++i) together.hidden(slots[i], std::span(drawn).first(i + 1));
    const at::Tensor logits = together.next_logits(slots, drawn);
    for (size_t i = 0; i < slots.size(); ++i) {
      alone.truncate(0, 0);
      alone.hidden(0, std::span(drawn).first(i + 1));
      const std::vector<float> expected = alone.next_logits(0, std::span(drawn).subspan(i, 1));
      const float* found = logits.const_data_ptr<float>() + static_cast<int64_t>(i) * logits.size(1);
      EXPECT_EQ(std::vector<float>(found, found + logits.size(1)), expected) << c10::toString(type) << " " << i;
    }
  }
}

}  // namespace
}  // namespace terrace::generate
