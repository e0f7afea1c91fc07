// Maps a sample of the run to a corpus and one of its samples: a pure function in constant memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/random.h"

namespace terrace::data {

// Without weights, all samples of all corpora form one epoch in a shuffled order, so each occurs once per epoch. With
// weights, the run is a sequence of blocks of equal length. Each block has the same number of samples from a corpus, in
// its own shuffled order. Each corpus has its own epochs, in which each of its samples occurs once.
class Mixture {
 public:
  struct CorpusSample {
    size_t corpus;
    uint64_t sample;  // within the corpus
  };

  // `sizes` are numbers of samples, all > 0; `weights` has as many entries or none. With `reshuffle` each epoch has
  // another order.
  Mixture(std::vector<uint64_t> sizes, const std::vector<double>& weights, PhiloxKey key, bool reshuffle);

  CorpusSample at(uint64_t run_sample) const;

  // The number of samples in one pass over all corpora; with weights, until every sample of every corpus has occurred.
  uint64_t samples() const { return samples_; }

  // The fraction of the run's samples that come from a corpus: its weight with an error of up to 1/4096, or exactly its
  // weight where every weight is a multiple of 1/B with B up to 4096.
  double share(size_t corpus) const;

 private:
  uint64_t ordered(uint64_t stream, uint64_t size, uint64_t index) const;
  void fill_block(const std::vector<double>& weights);

  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> begins_;  // [corpora + 1]: running sums of samples, or with weights of samples in a block
  PhiloxKey key_;
  bool reshuffle_;
  bool weighted_;
  uint64_t samples_ = 0;
};

}  // namespace terrace::data
