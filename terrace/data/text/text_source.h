// The data source of language models: windows of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "terrace/data/source.h"
#include "terrace/data/text/loader.h"
#include "terrace/data/text/text_config.h"

namespace terrace::data {

// A source of micro-batches that have N sequences of T tokens and one count, the targets that are not -1:
//   tokens     [N, T] int64
//   targets    [N, T] int64: the next token; -1 where there is none to predict
//   positions  [N, T] int64, only with reset_at_documents: distance from the document's start
//   documents  [N, T] int64, only with reset_at_documents: ascending number within the sample
//   document_starts  [documents + 1] int32 with the size "longest_document", see add_document_starts()
class TextSource : public Source {
 public:
  // Opens the corpora as Loader does, and throws what Loader throws.
  TextSource(const TextConfig& config, int64_t sequence, int64_t vocabulary, uint64_t seed,
             const std::vector<TextPhase>& phases = {}, int64_t global_batch = 0);

  // Counts bytes by the tokenizer; the space that it puts before a document is no part of the text.
  std::optional<uint64_t> held_out_bytes(const HeldOut& held_out) const override;
  uint64_t samples_in_epoch() const override { return loader_.samples(Split::train); }
  Json identity() const override;
  std::string difference(const Json& older, const Json& own, int64_t steps_done) const override;
  void follow_order_of(const Json& older, Json& own) override;
  std::vector<Baseline> baselines() const override;
  std::vector<AttachedFile> attached_files() const override;
  std::vector<const MappedFile*> staged_files() const override { return loader_.token_files(); }
  const NodeOrder* node_order() const override { return loader_.node_order(); }
  void read_by(std::shared_ptr<const StagedReader> staged) override { loader_.read_by(std::move(staged)); }

  const Loader& loader() const { return loader_; }

 protected:
  std::vector<HeldOutPart> held_out_parts() const override { return loader_.held_out_parts(); }
  const Mixture* held_out_order() const override { return loader_.held_out_order(); }
  MicroBatch micro_batch(const Samples& samples, const TensorNames& names) const override;
  int64_t items_of(uint64_t /*sample*/) const override { return sequence_; }
  // Adds corpus, first token, documents, and the text of the tokens, or the tokens where there is no tokenizer.
  void describe(uint64_t sample, Json& record) const override;
  FileRanges ranges_of(const Samples& samples, const TensorNames& names) const override;

 private:
  int64_t sequence_;
  std::string tokenizer_, tokenizer_stored_as_ = "tokenizer.model";
  std::string generation_;
  Loader loader_;
};

// Adds "document_starts", the places in documents [N, T] at which another document or sequence begins and N * T, and
// the size "longest_document", the most places between two of them.
void add_document_starts(std::span<const int64_t> documents, int64_t length, MicroBatch& batch);

// Returns a sentence for every problem with the files that [data] names, found without reading the corpora.
std::vector<std::string> problems_with_files(const TextConfig& config, int64_t vocabulary,
                                             const std::vector<TextPhase>& phases = {});
// Returns what each of the files that [data] names holds, in words and as a checksum, for a comparison across ranks.
std::vector<std::pair<std::string, std::string>> file_facts(const TextConfig& config,
                                                            const std::vector<TextPhase>& phases = {});

}  // namespace terrace::data
