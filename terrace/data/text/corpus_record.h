// What is known of a corpus beside what Megatron's two files say: which tokenizer made it. PREFIX.corpus.json, which
// `terrace data prepare` writes together with PREFIX.bin and PREFIX.idx. Corpora of other programs have none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "terrace/config/config.h"

namespace terrace::data {

struct TokenizerRecord {
  std::string checksum;  // terrace::checksum() of the tokenizer's file
  std::string kind;      // "sentencepiece" or "byte_pair"
  int64_t vocabulary = 0;
  bool operator==(const TokenizerRecord&) const = default;

  static constexpr size_t shown_digits = 8;  // of a checksum in messages
  // "3f1b8d20 (sentencepiece, 600 tokens)".
  std::string text() const;
};

// `bytes` are the tokenizer's file.
TokenizerRecord record_tokenizer(std::string_view bytes, int64_t vocabulary);

struct CorpusRecord {
  std::string fingerprint;  // of the .idx and the .bin that the record was written with
  TokenizerRecord tokenizer;
  bool operator==(const CorpusRecord&) const = default;

  std::string json() const;  // the file's content
};

std::filesystem::path record_path(const std::string& prefix);
// None where the file is missing. Keys that are not known are passed over. Throws UserError for a file that is damaged.
std::optional<CorpusRecord> read_corpus_record(const std::string& prefix);

// Tells corpora apart in milliseconds, whatever their size: a checksum over the sizes of both files, the head and the
// tail of the index, and about 64 places of 4 KiB in each file, evenly spread. It does not depend on where the files
// lie or when they were written. Two corpora that differ in a few tokens between these places have the same.
std::string corpus_fingerprint(std::span<const std::byte> index, std::span<const std::byte> bin);
// Of a corpus by its name in data.train, without looking at what the files hold otherwise; a token file of llm.c's has
// no index. Throws UserError for a file that cannot be opened.
std::string corpus_fingerprint(const std::string& name);

// Throws UserError where `bytes`, the content of the file `tokenizer`, are not the tokenizer of the corpus's record.
void check_tokenizer_of(const std::string& corpus, const TokenizerRecord& record,
                        const std::filesystem::path& tokenizer, std::string_view bytes);

// Refuses corpora that do not belong in one run, before any is opened; what does not exist is passed over. Throws
// UserError where two names in data.train and data.validation are of the same files (by another spelling, a link), and
// where the records name other tokenizers than data.tokenizer or than each other. Reads the records and the tokenizer.
void check_corpora_of_run(const config::DataConfig& config);

}  // namespace terrace::data
