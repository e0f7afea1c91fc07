// The state of a Loader: its corpora and, for each split, the samples that belong to it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/data/mixture.h"
#include "terrace/data/text/loader.h"
#include "terrace/data/text/token_corpus.h"

namespace terrace::data {

// The samples of one corpus in a split: a contiguous range of its windows. Window i covers the T + 1 tokens
// [i * T, i * T + T], so that the last input has a target. Consecutive windows share one token, which is a target in
// the first of them only.
struct Windows {
  std::string name;  // as the configuration has it
  std::shared_ptr<const TokenCorpus> corpus;
  uint64_t first = 0, count = 0;
};

struct SplitWindows {
  std::vector<Windows> corpora;
  std::optional<Mixture> mixture;  // none where the split is empty
};

// Reads windows as rows of a batch.
struct WindowReader {
  int64_t sequence = 0, vocabulary = 0;
  bool reset_at_documents = false;

  // tokens and targets [T]; positions and documents [T] are written only with reset_at_documents.
  void read(const Windows& windows, uint64_t sample, std::span<int64_t> tokens, std::span<int64_t> targets,
            std::span<int64_t> positions, std::span<int64_t> documents) const;
};

struct Loader::State {
  WindowReader reader;
  SplitWindows train, validation;

  const SplitWindows& of(Split split) const { return split == Split::train ? train : validation; }
};

}  // namespace terrace::data
