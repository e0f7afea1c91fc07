// The loss of the best model that knows only how often each token occurs.
#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/data/loader_state.h"

namespace terrace::data {
namespace {

// A pass over all windows is in order, which the corpus does not expect by itself.
constexpr uint64_t announced_tokens = 1 << 20;

// How often each token is a target in one corpus's part of a split, and how many targets were counted.
struct TargetCounts {
  std::vector<uint64_t> by_token;  // [vocabulary]
  uint64_t total = 0;
};

TargetCounts count_targets(const WindowReader& reader, const Windows& windows, uint64_t token_limit) {
  TargetCounts counts{std::vector<uint64_t>(static_cast<size_t>(reader.vocabulary))};
  const auto length = static_cast<size_t>(reader.sequence);
  const uint64_t read = std::clamp<uint64_t>(token_limit / length, 1, windows.count);
  const bool all = read == windows.count;
  const uint64_t ahead = std::max<uint64_t>(1, announced_tokens / length);  // windows
  std::vector<int64_t> tokens(length), targets(length), positions(length), documents(length);
  for (uint64_t i = 0; i < read; ++i) {
    const uint64_t whole = windows.count / read, rest = windows.count % read;
    if (all && i % ahead == 0) windows.corpus->expect((windows.first + i) * length, ahead * length);
    reader.read(windows, i * whole + i * rest / read, tokens, targets, positions, documents);
    for (int64_t target : targets) {
      if (target < 0) continue;
      ++counts.by_token[static_cast<size_t>(target)];
      ++counts.total;
    }
  }
  return counts;
}

// Counts of a split, each corpus by its share in the mixture.
struct MixedCounts {
  std::vector<double> by_token;  // [vocabulary]
  double total = 0;
};

MixedCounts mix_counts(const WindowReader& reader, const SplitWindows& split, uint64_t token_limit) {
  MixedCounts mixed{std::vector<double>(static_cast<size_t>(reader.vocabulary))};
  std::vector<TargetCounts> counts;
  for (size_t i = 0; i < split.corpora.size(); ++i) {
    const double share = split.mixture->share(i);
    counts.push_back(
        count_targets(reader, split.corpora[i], static_cast<uint64_t>(share * static_cast<double>(token_limit))));
    mixed.total += static_cast<double>(counts.back().total);
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].total == 0) continue;
    const double scale = split.mixture->share(i) * mixed.total / static_cast<double>(counts[i].total);
    for (size_t token = 0; token < mixed.by_token.size(); ++token) {
      mixed.by_token[token] += scale * static_cast<double>(counts[i].by_token[token]);
    }
  }
  return mixed;
}

}  // namespace

double Loader::unigram_loss(uint64_t token_limit) const {
  if (!state_->validation.mixture) {
    throw UserError("no text is held out for a unigram loss; set data.validation_share > 0 or name data.validation");
  }
  const MixedCounts train = mix_counts(state_->reader, state_->train, token_limit);
  const MixedCounts held_out = mix_counts(state_->reader, state_->validation, token_limit);
  const double smoothed_total = train.total + static_cast<double>(state_->reader.vocabulary);
  double sum = 0, weight = 0;
  for (size_t token = 0; token < train.by_token.size(); ++token) {
    if (held_out.by_token[token] == 0) continue;
    sum -= held_out.by_token[token] * std::log((train.by_token[token] + 1) / smoothed_total);
    weight += held_out.by_token[token];
  }
  if (weight == 0) throw UserError("the held-out samples have no targets; hold out more text");
  return sum / weight;
}

}  // namespace terrace::data
