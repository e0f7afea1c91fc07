// Which corpus, and which of its samples, a sample of the run is: a pure function in constant memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/random.h"

namespace terrace::data {

// Without weights, all samples of all corpora form one epoch in a shuffled order, and each comes once an epoch. With
// weights, the run is a sequence of blocks of equal length; each block takes the same number of samples from a corpus,
// in a shuffled order of its own, and each corpus passes through epochs at its own pace: within one, each of its
// samples comes once.
class Mixture {
 public:
  struct Place {
    size_t corpus;
    uint64_t sample;  // within the corpus
  };

  // `sizes` are samples, all > 0; `weights` has as many entries or none. reshuffle: another order each epoch, else the
  // same in all.
  Mixture(std::vector<uint64_t> sizes, const std::vector<double>& weights, PhiloxKey key, bool reshuffle);

  Place at(uint64_t run_sample) const;

  // In one pass over all corpora; with weights, until every sample of every corpus came at least once.
  uint64_t samples() const { return samples_; }

  // Share of the run's samples that a corpus gives: its weight to within 1/4096 of the whole, exactly where every
  // weight is a multiple of 1/B with B up to 4096.
  double share(size_t corpus) const;

 private:
  uint64_t ordered(uint64_t stream, uint64_t size, uint64_t index) const;
  void fill_block(const std::vector<double>& weights);

  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> begins_;  // [corpora + 1]: without weights samples, with weights slots of a block, summed
  PhiloxKey key_;
  bool reshuffle_;
  bool weighted_;
  uint64_t samples_ = 0;
};

}  // namespace terrace::data
