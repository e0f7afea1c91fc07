// Writes PREFIX.bin, PREFIX.idx and the record of their tokenizer atomically.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/data/text/corpus_index.h"
#include "terrace/data/text/corpus_record.h"

namespace terrace::data {

// Memory does not grow with the corpus: the entries of the index are kept in an unnamed file until commit(). Without
// commit() no file is left; files of a killed run are removed by the next run for the same prefix. Write errors throw
// std::system_error.
class CorpusWriter {
 public:
  struct Options {
    bool overwrite = false;
    // Megatron's lengths are int32: a longer document becomes several sequences of one document.
    int64_t longest_sequence = int64_t{1} << 30;
    std::optional<TokenizerRecord> tokenizer = {};  // none: no record is written
    int64_t begin_token = -1;                       // the begin token that the record names
  };

  // Throws UserError where a file of the corpus exists.
  static void check_absent(const std::string& prefix);

  // Throws UserError where the corpus exists and must not be overwritten, or where another process is writing it.
  CorpusWriter(const std::string& prefix, int64_t vocabulary, Options options);
  ~CorpusWriter();
  CorpusWriter(const CorpusWriter&) = delete;

  void append(std::span<const int32_t> tokens);
  void end_document();
  // Adds a document whose tokens others write into unfinished_bin(), behind all before it.
  void add_document_elsewhere(uint64_t tokens);
  const std::filesystem::path& unfinished_bin() const { return bin_->temporary_path(); }
  // Closes an open document. `trained`, where given, is the file of the tokenizer that was trained for this corpus; it
  // gets its name together with the corpus. Everything is written and synced before old files are changed, so that a
  // full disk leaves them whole. Then the old index is removed first and the new one is renamed last, so that there is
  // never an index beside a .bin, a record or a trained tokenizer of another run.
  void commit(AtomicFile* trained = nullptr);

  uint64_t tokens() const { return tokens_; }
  uint64_t documents() const { return documents_; }
  TokenType type() const { return type_; }

 private:
  size_t room_in_sequence(uint64_t tokens);
  void count(size_t tokens);
  void end_sequence(bool ends_document);
  template <typename Visit>
  void visit_sequences(Visit visit);
  void write_index(AtomicFile& index);
  std::unique_ptr<AtomicFile> write_record(const AtomicFile& index) const;

  std::string prefix_;
  Options options_;
  TokenType type_;
  std::unique_ptr<AtomicFile> bin_;
  std::FILE* lengths_ = nullptr;  // one int32 for each sequence: its length, or ~length where its document continues
  std::vector<uint16_t> narrow_;
  int64_t sequence_tokens_ = 0;
  bool document_open_ = false;
  uint64_t tokens_ = 0, sequences_ = 0, documents_ = 0;
};

}  // namespace terrace::data
