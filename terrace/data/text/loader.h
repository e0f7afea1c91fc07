// Loads samples for training: fixed-length windows of memory-mapped corpora. Their order is a pure function of
// (seed, epoch, sample), so a run can start at any step in constant time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/text/json_fwd.h"
#include "terrace/data/order/mixture.h"
#include "terrace/data/source.h"
#include "terrace/data/text/text_config.h"

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

class Loader {
 public:
  // Opens and checks every corpus. Throws UserError that names the file and the problem, also where a token is not
  // below `vocabulary`, a split is shorter than one sample, a corpus is named twice, or the corpora were not all
  // encoded with one tokenizer (config.tokenizer where that is given). Without training corpora only the held-out
  // samples can be read. The cost does not grow with the corpus except for page faults.
  // The corpora of `phases` are opened too: each phase trains on its own mix of corpora from its first sample on, in
  // which a corpus continues where the mix before left it (mixture.h), also one that was absent for a while. Held-out
  // samples are those of all corpora of the run at any time.
  // `global_batch` is the samples of each step, by which data.order = "node" is computed; 0: nothing is trained.
  Loader(const TextConfig& config, int64_t sequence, int64_t vocabulary, uint64_t seed,
         const std::vector<TextPhase>& phases = {}, int64_t global_batch = 0);
  ~Loader();
  Loader(Loader&&) noexcept;

  // Returns samples first .. first + count - 1 of the run. Training repeats its samples in epochs, each in another
  // order; validation has one fixed order and wraps around. Thread-safe.
  SampleBatch batch(Split split, uint64_t first, int64_t count) const;
  // Returns the samples with these numbers.
  SampleBatch batch(Split split, std::span<const uint64_t> samples) const;

  // The tokens that a training sample reads: where they lie, and the documents of its first and its last token.
  struct SamplePlace {
    std::string corpus;  // as the configuration names it
    uint64_t first_token = 0, tokens = 0;
    uint64_t first_document = 0, last_document = 0;
  };
  SamplePlace training_place(uint64_t sample) const;

  // Return the files with the tokens of all corpora, each once, and what the samples with these numbers read of the
  // files. From read_by() on the files are read by `staged`.
  std::vector<const MappedFile*> token_files() const;
  FileRanges reads(Split split, std::span<const uint64_t> samples) const;
  void read_by(std::shared_ptr<const StagedReader> staged);
  const NodeOrder* node_order() const;  // of the training samples; null unless data.order = "node"

  // Sets the version of the order of weighted training samples from now on; at first it is the latest. Called before
  // several threads use the loader.
  void follow(OrderVersion version);
  OrderVersion order_version() const;

  // Returns the number of samples in one pass over the split. For training on several weighted corpora that is a pass
  // over the mixture's longest corpus, and with phases 0: a run whose corpora change has no such pass. For validation
  // every held-out sample counts once, whatever the weights.
  uint64_t samples(Split split) const;

  // Returns the corpora of the validation split, and their order: it is shuffled over all corpora, so that its first
  // samples have about the share of each, and the same for every seed; null where nothing is held out.
  std::vector<HeldOutPart> held_out_parts() const;
  const Mixture* held_out_order() const;

  // Returns the identity of the corpora, with an entry for every corpus and split, those of a phase apart: name,
  // tokens, windows of the split, and the checksum of the whole index. Checkpoints keep the identity, and a run
  // continues only where it is the same. This reads every index, which takes seconds for gigabytes, so that only one
  // rank should call it.
  Json identity() const;
  // Returns an object for each phase with from_step and corpora, as identity() has them, of the phase's corpora and
  // what the phase adds to the held-out ones.
  Json phase_identities() const;

  // Returns the unigram baseline: the mean over validation targets of -ln(frequency in the training split), add-one
  // smoothed, in nats per token. It reads both splits once, or at most `token_limit` evenly spread tokens of each. The
  // result is stored beside the first corpus (unigram_store.h) and reused by later starts with the same corpora,
  // splits, sequence and vocabulary. Where that folder cannot be written to, fewer tokens are read.
  double unigram_loss(uint64_t token_limit = 50'000'000) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace terrace::data
