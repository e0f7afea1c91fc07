// Filters the tokens in the usual order (temperature, top-k, top-p) and draws one with the counter-based generator.
#include "terrace/generate/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/base/vector_clones.h"

namespace terrace::generate {
namespace {

struct Extremes {
  float largest;
  bool finite;
};

// The largest of the logits, and whether one is no number. Works in lanes, which compilers turn into vectors.
TERRACE_VECTOR_CLONES Extremes extremes_of(std::span<const float> logits) {
  constexpr size_t num_lanes = 16;
  float largest[num_lanes];
  uint32_t broken[num_lanes] = {};
  std::fill(largest, largest + num_lanes, -std::numeric_limits<float>::infinity());
  const auto take = [&](size_t lane, float logit) {
    largest[lane] = logit > largest[lane] ? logit : largest[lane];
    constexpr uint32_t exponent = 0x7F800000;
    broken[lane] |= (std::bit_cast<uint32_t>(logit) & exponent) == exponent ? 1U : 0U;
  };
  size_t i = 0;
  for (; i + num_lanes <= logits.size(); i += num_lanes) {
    for (size_t lane = 0; lane < num_lanes; ++lane) take(lane, logits[i + lane]);
  }
  for (; i < logits.size(); ++i) take(0, logits[i]);
  return {*std::max_element(largest, largest + num_lanes),
          std::none_of(broken, broken + num_lanes, [](uint32_t bits) { return bits != 0; })};
}

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
  double sum = 0.0;
  size_t kept = 0, sorted = 0;
  while (kept < tokens.size() && sum < p) {
    if (kept == sorted) {  // sorts more of them only where that is needed, since there are many tokens
      sorted = std::min(tokens.size(), 8 * sorted + 64);
      std::ranges::partial_sort(tokens.begin() + static_cast<int64_t>(kept),
                                tokens.begin() + static_cast<int64_t>(sorted), tokens.end(), more_probable);
    }
    sum += tokens[kept++].probability;
  }
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
  const Extremes extremes = extremes_of(logits);
  if (!extremes.finite) {
    const auto broken = std::ranges::find_if_not(logits, [](float logit) { return std::isfinite(logit); });
    throw UserError::of(
        "the logit of token {} is {}: the weights are broken, or too large for this precision; try fp32",
        broken - logits.begin(), *broken);
  }
  const auto largest = std::ranges::find(logits, extremes.largest);
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
