// Samples for training: fixed-length windows over memory-mapped corpora, in an order that is a pure function of
// (seed, epoch, sample), so any step of any run is reached at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/config/config.h"

namespace terrace::data {

enum class Split { train, validation };

// N samples of T tokens, row-major.
struct SampleBatch {
  int64_t count = 0;               // N
  int64_t length = 0;              // T
  std::vector<int64_t> tokens;     // [N, T]
  std::vector<int64_t> targets;    // [N, T]: the next token; -1 where there is none to predict
  std::vector<int64_t> positions;  // [N, T], only with reset_at_documents: distance from the document's start
  std::vector<int64_t> documents;  // [N, T], only with reset_at_documents: ascending number within the sample
  std::vector<int64_t> ids;        // [N]: the sample's number in the run
};

// The held-out samples of one corpus.
struct HeldOut {
  std::string corpus;             // as the configuration names it
  std::vector<uint64_t> samples;  // their numbers in the validation split, ascending
};

class Loader {
 public:
  // Opens every corpus and checks it: throws UserError naming the file and what is wrong, also where a token can be as
  // large as `vocabulary`, a split is shorter than one sample, a corpus is named twice, or the corpora are not of one
  // tokenizer, which is config.tokenizer where that is given. Cost does not grow with the corpus but for page
  // faults.
  Loader(const config::DataConfig& config, int64_t sequence, int64_t vocabulary, uint64_t seed);
  ~Loader();
  Loader(Loader&&) noexcept;

  // Samples first .. first + count - 1 of the run. Training passes over its samples again and again, each epoch in
  // another order; validation has one fixed order and wraps around. Thread-safe.
  SampleBatch batch(Split split, uint64_t first, int64_t count) const;
  // Those with the numbers given.
  SampleBatch batch(Split split, std::span<const uint64_t> samples) const;

  // Samples in one pass over the split. For training on several weighted corpora: in one pass over the mixture's
  // longest corpus. For validation every held-out sample counts once, whatever the weights.
  uint64_t samples(Split split) const;

  // Names of the split's corpora as the configuration has them.
  std::vector<std::string> corpora(Split split) const;

  // The first `at_most` samples of the validation split, or all where there are no more, by corpus; corpora without any
  // among them are left out. The order of the split is shuffled over all corpora, so a limited number takes from each
  // about its share of the held-out samples. The same at every call and for every seed.
  std::vector<HeldOut> held_out(uint64_t at_most) const;

  // Two identities of the corpora, each an entry for every corpus and split.
  //
  // The full one: name, tokens, windows of the split, and the checksum of the whole index. Checkpoints keep it, and a
  // run continues only where it is the same. Reads every index, which takes seconds for gigabytes: for one rank.
  Json identity() const;
  // The cheap one: the same with corpus_fingerprint() in place of the checksum. Milliseconds, so every rank computes
  // its own and all compare them: files of the same names and sizes on the disks of different machines do not pass for
  // equal.
  Json fingerprint() const;

  // Unigram baseline: mean over validation targets of -ln(frequency in the training split), add-one smoothed,
  // in nats a token. Reads both splits once; for huge corpora at most `token_limit` tokens of each, evenly spread. The
  // result is kept beside the first corpus (unigram_store.h), and another start with the same corpora, splits, sequence
  // and vocabulary takes it from there. Where that folder cannot be written to, fewer tokens are read.
  double unigram_loss(uint64_t token_limit = 50'000'000) const;

 private:
  template <typename Figure>
  Json of_each_corpus(const char* name, Figure figure) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace terrace::data
