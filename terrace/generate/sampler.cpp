// Filters the tokens in the usual order (temperature, top-k, top-p) and draws one with the counter-based generator.
#include "terrace/generate/sampler.h"

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/random.h"

namespace terrace::generate {
namespace {

bool more_probable(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

void scale_to_one(std::vector<Candidate>& tokens) {
  double sum = 0.0;
  for (const Candidate& candidate : tokens) sum += candidate.probability;
  for (Candidate& candidate : tokens) candidate.probability /= sum;
}

void keep_top_k(std::vector<Candidate>& tokens, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(tokens.size())) return;
  std::ranges::nth_element(tokens, tokens.begin() + k, more_probable);
  tokens.resize(k);
  scale_to_one(tokens);
}

void keep_top_p(std::vector<Candidate>& tokens, double p) {
  if (p >= 1.0) return;
  std::ranges::sort(tokens, more_probable);
  double sum = 0.0;
  size_t kept = 0;
  while (kept < tokens.size() && sum < p) sum += tokens[kept++].probability;
  tokens.resize(std::max<size_t>(kept, 1));
  scale_to_one(tokens);
}

}  // namespace

void check(const Sampling& sampling) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0.0) {
    throw UserError::of("temperature = {}: use 0 for the most probable token, or a number above it such as 0.8",
                        sampling.temperature);
  }
  if (sampling.top_k < 0) throw UserError::of("top-k = {}: use 0 for all tokens, or 1 and more", sampling.top_k);
  if (!(sampling.top_p > 0.0 && sampling.top_p <= 1.0)) {
    throw UserError::of("top-p = {}: use a number above 0 and up to 1", sampling.top_p);
  }
}

std::vector<Candidate> candidates(std::span<const float> logits, const Sampling& sampling) {
  TERRACE_CHECK(!logits.empty(), "no logits to draw from");
  for (size_t token = 0; token < logits.size(); ++token) {
    if (!std::isfinite(logits[token])) {
      throw UserError::of(
          "the logit of token {} is {}: the weights are broken, or too large for this precision; try fp32", token,
          logits[token]);
    }
  }
  const auto largest = std::ranges::max_element(logits);
  if (sampling.temperature == 0.0) return {{largest - logits.begin(), 1.0}};
  std::vector<Candidate> tokens(logits.size());
  for (size_t token = 0; token < logits.size(); ++token) {
    const double difference = static_cast<double>(logits[token]) - static_cast<double>(*largest);
    tokens[token] = {static_cast<int64_t>(token), std::exp(difference / sampling.temperature)};
  }
  scale_to_one(tokens);
  keep_top_k(tokens, sampling.top_k);
  keep_top_p(tokens, sampling.top_p);
  return tokens;
}

int64_t choose(std::span<const float> logits, const Sampling& sampling, int64_t sample, int64_t position) {
  const std::vector<Candidate> tokens = candidates(logits, sampling);
  const PhiloxBlock bits =
      philox_at(stream_key(sampling.seed, "generate"), static_cast<uint64_t>(position), static_cast<uint64_t>(sample));
  double left = unit_uniform(bits[0], bits[1]);
  for (const Candidate& candidate : tokens) {
    left -= candidate.probability;
    if (left < 0.0) return candidate.token;
  }
  // The probabilities may sum to a little less than 1 because of rounding.
  return tokens.back().token;
}

}  // namespace terrace::generate
