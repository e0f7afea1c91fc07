// Writing PREFIX.bin and PREFIX.idx so that both appear whole or not at all.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/file.h"
#include "terrace/data/corpus_index.h"

namespace terrace::data {

// Memory does not grow with the corpus: the index's entries wait in an unnamed file until commit(). Without commit()
// nothing stays behind; what a killed run left is removed by the next run for the same prefix. Write errors throw
// std::system_error.
class CorpusWriter {
 public:
  struct Options {
    bool overwrite = false;
    // Megatron's lengths are int32: a longer document becomes several sequences of one document.
    int64_t longest_sequence = int64_t{1} << 30;
  };

  // Throws UserError where the corpus exists and must not be overwritten, or where another process is writing it.
  CorpusWriter(const std::string& prefix, int64_t vocabulary, Options options);
  ~CorpusWriter();
  CorpusWriter(const CorpusWriter&) = delete;

  void append(std::span<const int32_t> tokens);
  void end_document();
  // Closes an open document. An earlier index is removed before the new .bin takes its name, so that at no instant an
  // index stands beside the .bin of another run.
  void commit();

  uint64_t tokens() const { return tokens_; }
  uint64_t documents() const { return documents_; }
  TokenType type() const { return type_; }

 private:
  void end_sequence(bool ends_document);
  template <typename Visit>
  void visit_sequences(Visit visit);
  void write_index(AtomicFile& index);

  std::string prefix_;
  Options options_;
  TokenType type_;
  std::unique_ptr<AtomicFile> bin_;
  std::FILE* lengths_ = nullptr;  // one int32 a sequence: its length, or ~length where its document goes on
  std::vector<uint16_t> narrow_;
  int64_t sequence_tokens_ = 0;
  bool document_open_ = false;
  uint64_t tokens_ = 0, sequences_ = 0, documents_ = 0;
};

}  // namespace terrace::data
