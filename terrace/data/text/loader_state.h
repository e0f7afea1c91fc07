// The state of a Loader: its corpora and, for each split, the samples that belong to it.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/data/order/mixture.h"
#include "terrace/data/order/node_order.h"
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
  // For held-out windows that have every target (HeldOutTargets), window i begins `stride` tokens behind window i - 1,
  // and all together have so many targets. 0: whole windows of T targets each, one behind the other.
  uint64_t stride = 0, targets = 0;
};

struct SplitWindows {
  std::vector<Windows> corpora;
  std::optional<Mixture> mixture;  // none where the split is empty
};

// The training samples of a phase.
struct PhaseWindows {
  int64_t from_step = 0;
  uint64_t first_sample = 0;  // of the run
  std::vector<double> weights;
  SplitWindows train;
  std::vector<Windows> held_out;  // what the phase adds to the validation split
};

// Reads windows as rows of a batch.
struct WindowReader {
  int64_t sequence = 0, vocabulary = 0;
  bool reset_at_documents = false;
  std::shared_ptr<const StagedReader> staged = nullptr;

  // Return the first token of a window, and the number of its targets before any is left out.
  uint64_t begin_of(const Windows& windows, uint64_t sample) const {
    const auto length = static_cast<uint64_t>(sequence);
    return windows.first * length + sample * (windows.stride > 0 ? windows.stride : length);
  }
  uint64_t length_of(const Windows& windows, uint64_t sample) const {
    const auto length = static_cast<uint64_t>(sequence);
    return windows.targets == 0 ? length : std::min(length, windows.targets - sample * windows.stride);
  }
  // Returns where a window is in the file of its corpus.
  FileRange range(const Windows& windows, uint64_t sample) const {
    return windows.corpus->range(begin_of(windows, sample), length_of(windows, sample) + 1);
  }
  // Reads tokens and targets [T], padded with token 0 and target -1; positions and documents [T] are written only with
  // reset_at_documents.
  void read(const Windows& windows, uint64_t sample, std::span<int64_t> tokens, std::span<int64_t> targets,
            std::span<int64_t> positions, std::span<int64_t> documents) const;
};

struct Loader::State {
  WindowReader reader;
  uint64_t seed = 0;
  std::vector<double> weights;  // of `train`
  OrderVersion version = OrderVersion::complete_epochs;
  SplitWindows train, validation;
  std::shared_ptr<const NodeOrder> node_order = nullptr;  // of `train`
  size_t own_held_out = 0;                                // the corpora of `validation` that are not a phase's
  std::vector<PhaseWindows> phases;                       // ascending

  // Makes the mixtures of all training samples. In a later mixture every corpus continues where the latest mix that had
  // it left it.
  void mix();

  const SplitWindows& of(Split split) const { return split == Split::train ? train : validation; }

  struct Mix {
    const SplitWindows& windows;
    uint64_t first_sample;
  };
  // Returns the windows of the mix that a sample of a split is taken from, and the mix's first sample.
  Mix mix_of(Split split, uint64_t sample) const {
    if (split == Split::validation) return {validation, 0};
    const auto after = std::ranges::upper_bound(phases, sample, {}, &PhaseWindows::first_sample);
    if (after == phases.begin()) return {train, 0};
    return {std::prev(after)->train, std::prev(after)->first_sample};
  }
  // The windows of a sample's corpus in the split, and the number of the sample's own window among them.
  struct Place {
    const Windows& windows;
    uint64_t sample;
  };
  Place place_of(Split split, uint64_t sample) const {
    const auto& [from, begin] = mix_of(split, sample);
    const Mixture::DatasetSample place = from.mixture->at(sample - begin);
    return {from.corpora[place.dataset], place.sample};
  }
};

}  // namespace terrace::data
