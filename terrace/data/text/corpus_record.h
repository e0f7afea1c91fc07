// The record of a corpus, PREFIX.corpus.json, says which tokenizer made the corpus, which Megatron's two files do not.
// `terrace data prepare` writes it together with PREFIX.bin and PREFIX.idx. Corpora of other programs have no record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "terrace/data/text/text_config.h"

namespace terrace::data {

struct TokenizerRecord {
  std::string checksum;  // terrace::checksum() of the tokenizer's file
  std::string kind;      // "sentencepiece" or "byte_pair"
  int64_t vocabulary = 0;
  bool operator==(const TokenizerRecord&) const = default;

  static constexpr size_t shown_digits = 8;  // digits of a checksum in messages
  // Returns the record in words: "3f1b8d20 (sentencepiece, 600 tokens)".
  std::string text() const;
};

// `bytes` are the tokenizer's file.
TokenizerRecord record_tokenizer(std::string_view bytes, int64_t vocabulary);

struct CorpusRecord {
  std::string fingerprint;  // of the .idx and the .bin that the record was written with
  TokenizerRecord tokenizer;
  int64_t begin_token = -1;                            // stands before each document; -1: none does
  std::string bin_checksum = {}, index_checksum = {};  // of the whole files; "" in records of before they were kept
  bool operator==(const CorpusRecord&) const = default;

  std::string json() const;  // the file's content
};

std::filesystem::path record_path(const std::string& prefix);
// Returns nullopt where the file of the record is missing. Unknown keys are ignored. Throws UserError for a damaged
// file.
std::optional<CorpusRecord> read_corpus_record(const std::string& prefix);

// Returns a fingerprint that takes milliseconds for any size of corpus: a checksum over the sizes of both files, the
// beginning and the end of the index, and about 64 evenly spread places of 4 KiB in each file. It does not depend on
// the files' paths or times. Two corpora that differ only in a few tokens between these places have the same
// fingerprint.
std::string corpus_fingerprint(std::span<const std::byte> index, std::span<const std::byte> bin);
// Returns the fingerprint of a corpus by its name in data.train. It does not check the files otherwise; llm.c's token
// files have no index. Throws UserError for a file that cannot be opened.
std::string corpus_fingerprint(const std::string& name);

// Returns the terrace::checksum() of a whole file, which is read in parts.
std::string checksum_of_file(const std::filesystem::path& path);

// Compares the whole files of a corpus with the checksums of its record, which takes about a second for each gigabyte.
// Returns false where the record has none. Throws UserError that names the file which differs.
bool verify_corpus(const std::string& prefix);

// Throws UserError where `bytes`, the content of the file `tokenizer`, are not the tokenizer of the corpus's record.
void check_tokenizer_of(const std::string& corpus, const TokenizerRecord& record,
                        const std::filesystem::path& tokenizer, std::string_view bytes);

// Refuses corpora that do not fit into one run, before any is opened; files that do not exist are ignored. Warns where
// data.begin_token stands before no document of a corpus. Throws UserError where two names in data.train, its phases
// and data.validation are of the same files (by another spelling, a link), where a phase names a corpus twice, and
// where the records name other tokenizers than data.tokenizer or than each other, or another token before documents
// than data.begin_token. Reads the records and the tokenizer.
void check_corpora_of_run(const TextConfig& config, const std::vector<TextPhase>& phases = {});

}  // namespace terrace::data
