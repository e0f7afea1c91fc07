// Draws the next token from logits: temperature, the k most probable, the smallest set of probability p, and a draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace terrace::generate {

struct Sampling {
  double temperature = 1.0;  // 0: always the most probable token
  int64_t top_k = 0;         // draw among this many of the most probable; 0: all
  double top_p = 1.0;        // then among the fewest whose probabilities reach this sum; 1: all
  uint64_t seed = 1;
};

// Throws UserError with the option, its value and its range.
void check(const Sampling& sampling);

struct Candidate {
  int64_t token = 0;
  double probability = 0.0;
};

// The tokens that may be drawn; their probabilities sum to 1. Of equal logits the one of the lower token counts as more
// probable. Temperature 0 gives one candidate. Throws UserError if a logit is NaN or infinite.
std::vector<Candidate> candidates(std::span<const float> logits, const Sampling& sampling);

// Draws one token: a function only of the logits, the seed, the number of the sample and the position in the sample.
int64_t choose(std::span<const float> logits, const Sampling& sampling, int64_t sample, int64_t position);

}  // namespace terrace::generate
