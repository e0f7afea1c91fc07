// Opens corpora, divides their windows between the splits, and fills batches.
#include "terrace/data/text/loader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/random.h"
#include "terrace/data/text/corpus_record.h"
#include "terrace/data/text/loader_state.h"

namespace terrace::data {
namespace {

constexpr uint64_t probes = 64;
constexpr uint64_t probe_tokens = 512;

void probe(const TokenCorpus& corpus, int64_t vocabulary) {
  std::vector<int64_t> tokens(std::min(probe_tokens, corpus.tokens()));
  const uint64_t last = corpus.tokens() - tokens.size();
  for (uint64_t i = 0; i < probes; ++i) corpus.read(last / (probes - 1) * i, tokens, vocabulary);
  corpus.read(last, tokens, vocabulary);
}

// Checks a few tokens of the corpus, so that a corpus of another tokenizer is detected before training starts; unless
// another process has done so.
void probe_tokens_of(const TokenCorpus& corpus, int64_t vocabulary) {
  found_in(corpus.files(), fmt::format("tokens below {}", vocabulary), [&] {
    probe(corpus, vocabulary);
    return std::string("all");
  });
}

// Opens a corpus and returns all of its windows. With `shorter` the corpus may be shorter than one window.
Windows all_windows(const std::string& prefix, int64_t sequence, int64_t vocabulary, bool shorter = false) {
  Windows windows{prefix, std::make_shared<TokenCorpus>(prefix)};
  windows.corpus->expect_random_reads();
  const uint64_t tokens = windows.corpus->tokens();
  if (tokens < (shorter ? 1 : static_cast<uint64_t>(sequence)) + 1) {
    throw UserError::of(
        "corpus {} has {} tokens, too few for one sample of {} and its last target; use a model.sequence of "
        "at most {}, or more text",
        prefix, tokens, sequence, tokens > 1 ? tokens - 1 : 0);
  }
  probe_tokens_of(*windows.corpus, vocabulary);
  windows.count = (tokens - 1) / static_cast<uint64_t>(sequence);
  return windows;
}

// Divides the windows of a corpus: the held-out windows are the last ones.
Windows split_off(Windows& train, double share, const std::string& prefix) {
  Windows held_out = train;
  const double wanted = std::round(share * static_cast<double>(train.count));
  held_out.count = std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
  if (held_out.count >= train.count) {
    throw UserError::of(
        "corpus {} has {} samples; a validation_share of {} holds out {} and leaves none to train on; use a "
        "smaller share, a shorter sequence, or more text",
        prefix, train.count, share, held_out.count);
  }
  train.count -= held_out.count;
  held_out.first = train.first + train.count;
  return held_out;
}

// Makes windows that begin every `stride` tokens and have every target from their first one to the end of the corpus.
void take_every_target(Windows& windows, int64_t stride, int64_t sequence) {
  const auto length = static_cast<uint64_t>(sequence);
  windows.stride = stride > 0 ? static_cast<uint64_t>(stride) : length;
  windows.targets = windows.corpus->tokens() - 1 - windows.first * length;
  const uint64_t behind_first = windows.targets - std::min(windows.targets, length);
  windows.count = 1 + (behind_first + windows.stride - 1) / windows.stride;
}

void check_config(const TextConfig& config, int64_t sequence) {
  if (config.train.empty() && config.validation.empty()) {
    throw UserError("data.train is empty; name at least one corpus prefix");
  }
  if (!config.weights.empty() && config.weights.size() != config.train.size()) {
    throw UserError::of("data.weights has {} entries for {} corpora in data.train; give one each, or none",
                        config.weights.size(), config.train.size());
  }
  for (double weight : config.weights) {
    if (!(weight > 0) || !std::isfinite(weight)) {
      throw UserError::of("data.weights holds {}; weights are positive numbers", weight);
    }
  }
  if (!(config.validation_share >= 0 && config.validation_share < 1)) {
    throw UserError::of("data.validation_share = {}; it lies in [0, 1), such as 0.01", config.validation_share);
  }
  if (sequence < 1) throw UserError::of("model.sequence = {}; it is at least 1", sequence);
}

std::vector<uint64_t> sizes_of(const SplitWindows& split) {
  std::vector<uint64_t> sizes;
  for (const Windows& windows : split.corpora) sizes.push_back(windows.count);
  return sizes;
}

// Opens corpora for training, and divides them into what is trained on and what is held out.
class TrainingCorpora {
 public:
  TrainingCorpora(const TextConfig& config, const WindowReader& reader) : config_(config), reader_(reader) {}

  // Returns the windows to train on. If the corpus is opened for the first time, appends those held out to `held_out`.
  Windows open(const std::string& prefix, std::vector<Windows>& held_out) {
    const auto found = opened_.find(prefix);
    if (found != opened_.end()) return found->second;
    Windows train = all_windows(prefix, reader_.sequence, reader_.vocabulary);
    if (config_.validation.empty() && config_.validation_share > 0) {
      held_out.push_back(split_off(train, config_.validation_share, prefix));
    }
    opened_[prefix] = train;
    return train;
  }

 private:
  const TextConfig& config_;
  const WindowReader& reader_;
  std::map<std::string, Windows> opened_;
};

// Opens the corpora of each phase.
void add_phases(const std::vector<TextPhase>& phases, TrainingCorpora& corpora, std::vector<PhaseWindows>& list) {
  for (const TextPhase& phase : phases) {
    PhaseWindows& windows = list.emplace_back();
    windows.from_step = phase.from_step;
    windows.first_sample = phase.first_sample;
    windows.weights = phase.weights;
    for (const std::string& prefix : phase.train) {
      windows.train.corpora.push_back(corpora.open(prefix, windows.held_out));
    }
  }
}

}  // namespace

void Loader::State::mix() {
  const PhiloxKey key = stream_key(seed, "order of training samples");
  train.mixture = node_order != nullptr ? Mixture(sizes_of(train), node_order)
                                        : Mixture(sizes_of(train), weights, key, true, version);
  std::map<std::string, Order> orders;
  const SplitWindows* before = &train;
  uint64_t began = 0;
  int64_t number = 1;
  for (PhaseWindows& phase : phases) {
    const std::vector<Order> rest = before->mixture->rest(phase.first_sample - began);
    for (size_t i = 0; i < rest.size(); ++i) orders[before->corpora[i].name] = rest[i];
    std::vector<Order> continued;
    for (const Windows& windows : phase.train.corpora) continued.push_back(orders[windows.name]);
    const PhiloxKey own_key = stream_key(seed, fmt::format("order of training samples in mix {}", ++number));
    phase.train.mixture.emplace(sizes_of(phase.train), phase.weights, own_key, std::move(continued), version);
    before = &phase.train;
    began = phase.first_sample;
  }
}

Loader::Loader(const TextConfig& config, int64_t sequence, int64_t vocabulary, uint64_t seed,
               const std::vector<TextPhase>& phases, int64_t global_batch)
    : state_(std::make_unique<State>()) {
  check_config(config, sequence);
  check_corpora_of_run(config, phases);
  state_->reader = {sequence, vocabulary, config.reset_at_documents};
  SplitWindows& train = state_->train;
  SplitWindows& validation = state_->validation;
  TrainingCorpora corpora(config, state_->reader);
  for (const std::string& prefix : config.train) train.corpora.push_back(corpora.open(prefix, validation.corpora));
  for (const std::string& prefix : config.validation) {
    validation.corpora.push_back(all_windows(prefix, sequence, vocabulary, config.held_out_targets.every));
  }
  state_->own_held_out = validation.corpora.size();
  if (!train.corpora.empty()) {
    state_->seed = seed;
    state_->weights = config.weights;
    state_->node_order =
        node_order_of(config.order, sizes_of(train), global_batch, stream_key(seed, "order of training samples"));
    add_phases(phases, corpora, state_->phases);
    state_->mix();
  }
  for (const PhaseWindows& phase : state_->phases) {
    validation.corpora.insert(validation.corpora.end(), phase.held_out.begin(), phase.held_out.end());
  }
  if (config.held_out_targets.every) {
    for (Windows& windows : validation.corpora) take_every_target(windows, config.held_out_targets.stride, sequence);
  }
  if (validation.corpora.empty()) return;
  // The key does not depend on the seed, so that runs with different seeds are evaluated on the same samples. There are
  // no weights, with which samples of one corpus would repeat before all of another have occurred once.
  validation.mixture.emplace(sizes_of(validation), std::vector<double>{}, stream_key(0, "order of validation samples"),
                             false);
}

Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;

uint64_t Loader::samples(Split split) const {
  if (split == Split::train && !state_->phases.empty()) return 0;
  const SplitWindows& windows = state_->of(split);
  return windows.mixture ? windows.mixture->samples() : 0;
}

void WindowReader::read(const Windows& windows, uint64_t sample, std::span<int64_t> tokens, std::span<int64_t> targets,
                        std::span<int64_t> positions, std::span<int64_t> documents) const {
  const uint64_t begin = begin_of(windows, sample), length = length_of(windows, sample);
  std::vector<int64_t> window(length + 1);
  windows.corpus->read(begin, window, vocabulary, staged.get());
  std::fill(std::copy(window.begin(), window.end() - 1, tokens.begin()), tokens.end(), 0);
  std::fill(std::copy(window.begin() + 1, window.end(), targets.begin()), targets.end(), -1);
  if (sample > 0 && windows.stride > 0) {
    std::fill_n(targets.begin(), static_cast<uint64_t>(sequence) - windows.stride, -1);  // the last window's targets
  }
  if (!reset_at_documents) return;
  const CorpusIndex& index = windows.corpus->index();
  uint64_t document = index.document_of(begin);
  uint64_t end = index.document_begin(document + 1);
  int64_t number = 0;
  for (uint64_t i = 0, start = 0; i < tokens.size(); ++i) {
    if (i < length && begin + i >= end) {
      document = index.document_of(begin + i);
      end = index.document_begin(document + 1);
      start = i;
      ++number;
    }
    positions[i] = static_cast<int64_t>(i - start);
    documents[i] = number;
    // The next document does not follow from this one.
    if (begin + i + 1 == end) targets[i] = -1;
  }
}

void Loader::follow(OrderVersion version) {
  if (state_->version == version) return;
  state_->version = version;
  if (!state_->train.corpora.empty()) state_->mix();
}

OrderVersion Loader::order_version() const { return state_->version; }

const NodeOrder* Loader::node_order() const { return state_->node_order.get(); }

SampleBatch Loader::batch(Split split, uint64_t first, int64_t count) const {
  TERRACE_CHECK(count >= 0, "a batch of {} samples", count);
  std::vector<uint64_t> samples(static_cast<size_t>(count));
  std::iota(samples.begin(), samples.end(), first);
  return batch(split, samples);
}

SampleBatch Loader::batch(Split split, std::span<const uint64_t> samples) const {
  const SplitWindows& windows = state_->of(split);
  if (!windows.mixture) {
    throw UserError("no text is held out for validation; set data.validation_share > 0 or name data.validation");
  }
  const WindowReader& reader = state_->reader;
  const auto length = static_cast<size_t>(reader.sequence);
  const size_t rows = samples.size();
  SampleBatch batch;
  batch.count = static_cast<int64_t>(rows);
  batch.length = reader.sequence;
  batch.tokens.resize(rows * length);
  batch.targets.resize(rows * length);
  if (reader.reset_at_documents) {
    batch.positions.resize(rows * length);
    batch.documents.resize(rows * length);
  }
  const auto row_of = [&](std::vector<int64_t>& values, size_t row) {
    return values.empty() ? std::span<int64_t>() : std::span(values).subspan(row * length, length);
  };
  for (size_t row = 0; row < rows; ++row) {
    const auto& [windows_of_corpus, number] = state_->place_of(split, samples[row]);
    reader.read(windows_of_corpus, number, row_of(batch.tokens, row), row_of(batch.targets, row),
                row_of(batch.positions, row), row_of(batch.documents, row));
    batch.ids.push_back(static_cast<int64_t>(samples[row]));
  }
  return batch;
}

Loader::SamplePlace Loader::training_place(uint64_t sample) const {
  const auto& [windows, number] = state_->place_of(Split::train, sample);
  const WindowReader& reader = state_->reader;
  const uint64_t first = reader.begin_of(windows, number), tokens = reader.length_of(windows, number) + 1;
  const CorpusIndex& index = windows.corpus->index();
  return {.corpus = windows.name,
          .first_token = first,
          .tokens = tokens,
          .first_document = index.document_of(first),
          .last_document = index.document_of(first + tokens - 1)};
}

std::vector<const MappedFile*> Loader::token_files() const {
  std::vector<const MappedFile*> files;
  const auto add = [&](const std::vector<Windows>& corpora) {
    for (const Windows& windows : corpora) {
      const MappedFile* file = &windows.corpus->token_file();
      if (std::ranges::find(files, file) == files.end()) files.push_back(file);
    }
  };
  add(state_->train.corpora);
  add(state_->validation.corpora);
  for (const PhaseWindows& phase : state_->phases) add(phase.train.corpora);
  return files;
}

FileRanges Loader::reads(Split split, std::span<const uint64_t> samples) const {
  FileRanges ranges;
  for (const uint64_t sample : samples) {
    const auto& [windows, number] = state_->place_of(split, sample);
    ranges.push_back(state_->reader.range(windows, number));
  }
  return ranges;
}

void Loader::read_by(std::shared_ptr<const StagedReader> staged) { state_->reader.staged = std::move(staged); }

std::vector<HeldOutPart> Loader::held_out_parts() const {
  std::vector<HeldOutPart> parts;
  for (const Windows& windows : state_->validation.corpora) {
    parts.push_back({.dataset = windows.name, .samples = windows.count});
  }
  return parts;
}

const Mixture* Loader::held_out_order() const {
  return state_->validation.mixture ? &*state_->validation.mixture : nullptr;
}

}  // namespace terrace::data
