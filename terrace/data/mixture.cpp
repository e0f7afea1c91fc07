// Computes the samples of each corpus in a block, and the keyed orders.
#include "terrace/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

constexpr uint64_t longest_block = 4096;

// The samples of each corpus in a block of `length`, by largest remainder and at least one for each.
std::vector<uint64_t> slots_of(const std::vector<double>& weights, uint64_t length) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<uint64_t> slots(weights.size());
  std::vector<double> missing(weights.size());
  uint64_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / total * static_cast<double>(length);
    slots[i] = std::max<uint64_t>(1, static_cast<uint64_t>(exact));
    missing[i] = exact - static_cast<double>(slots[i]);
    given += slots[i];
  }
  while (given != length) {
    const bool more = given < length;
    auto chosen = missing.end();
    for (auto it = missing.begin(); it != missing.end(); ++it) {
      if (!more && slots[static_cast<size_t>(it - missing.begin())] == 1) continue;
      if (chosen == missing.end() || (more ? *it > *chosen : *it < *chosen)) chosen = it;
    }
    slots[static_cast<size_t>(chosen - missing.begin())] += more ? 1 : -1;
    *chosen += more ? -1 : 1;
    given += more ? 1 : -1;
  }
  return slots;
}

// The shortest block in which every weight is a whole number of samples, or the longest allowed block.
uint64_t block_length(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (uint64_t length = weights.size(); length < longest_block; ++length) {
    const bool whole = std::all_of(weights.begin(), weights.end(), [&](double weight) {
      const double exact = weight / total * static_cast<double>(length);
      return exact > 0.5 && std::abs(exact - std::round(exact)) < 1e-9 * static_cast<double>(length);
    });
    if (whole) return length;
  }
  return longest_block;
}

PhiloxKey key_at(PhiloxKey key, uint64_t low, uint64_t high) {
  const PhiloxBlock block = philox_at(key, low, high);
  return {block[0], block[1]};
}

}  // namespace

Mixture::Mixture(std::vector<uint64_t> sizes, const std::vector<double>& weights, PhiloxKey key, bool reshuffle)
    : sizes_(std::move(sizes)), key_(key), reshuffle_(reshuffle), weighted_(!weights.empty()) {
  TERRACE_CHECK(!sizes_.empty() && (!weighted_ || weights.size() == sizes_.size()), "{} corpora, {} weights",
                sizes_.size(), weights.size());
  for (uint64_t size : sizes_) TERRACE_CHECK(size > 0, "a corpus without samples");
  if (weighted_) {
    fill_block(weights);
    return;
  }
  begins_.assign(1, 0);
  for (uint64_t size : sizes_) begins_.push_back(begins_.back() + size);
  samples_ = begins_.back();
}

void Mixture::fill_block(const std::vector<double>& weights) {
  if (weights.size() > longest_block) {
    throw UserError::of("{} weighted corpora; at most {} are mixed", weights.size(), longest_block);
  }
  begins_.assign(1, 0);
  for (uint64_t slots : slots_of(weights, block_length(weights))) begins_.push_back(begins_.back() + slots);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const uint64_t slots = begins_[i + 1] - begins_[i];
    samples_ = std::max(samples_, (sizes_[i] + slots - 1) / slots * begins_.back());
  }
}

double Mixture::share(size_t corpus) const {
  return static_cast<double>(begins_[corpus + 1] - begins_[corpus]) / static_cast<double>(begins_.back());
}

// Element `index` of the endless sequence of epochs of a stream over `size` elements.
uint64_t Mixture::ordered(uint64_t stream, uint64_t size, uint64_t index) const {
  const uint64_t epoch = reshuffle_ ? index / size : 0;
  return permute(key_at(key_, epoch, stream), size, index % size);
}

Mixture::CorpusSample Mixture::at(uint64_t run_sample) const {
  const uint64_t length = begins_.back();
  const uint64_t slot = ordered(0, length, run_sample);
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), slot);
  const auto corpus = static_cast<size_t>(after - begins_.begin()) - 1;
  const uint64_t within = slot - begins_[corpus];
  if (!weighted_) return {corpus, within};
  const uint64_t slots = begins_[corpus + 1] - begins_[corpus];
  return {corpus, ordered(corpus + 1, sizes_[corpus], run_sample / length * slots + within)};
}

}  // namespace terrace::data
