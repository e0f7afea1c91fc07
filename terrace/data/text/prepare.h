// Makes a corpus of tokens from raw text: `terrace data prepare`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/data/text/corpus_index.h"
#include "terrace/data/text/text_blocks.h"
#include "terrace/data/text/text_encoder.h"

namespace terrace::data {

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and folders
  FilePatterns patterns;            // of the files in folders
  std::string output;               // prefix of .bin and .idx
  std::string tokenizer;            // path of a tokenizer: read, or written where `train` is set
  bool train = false;
  int64_t vocabulary = 32'000;       // of a trained tokenizer
  uint64_t sample_bytes = 16 << 20;  // of text that a tokenizer is trained on
  FormatChoice format = FormatChoice::by_name;
  BlockRules rules;
  uint64_t max_malformed = 0;  // lines; one more fails the run
  int threads = 0;             // 0: one per core
  bool overwrite = false;
  const std::atomic<bool>* stop = nullptr;  // set: the run ends with an error and leaves nothing behind
};

// The prefix that is meant by --output: "data/val" for "data/val.bin" and "data/val.idx".
std::string output_prefix(const std::string& output);

struct PrepareReport {
  uint64_t files = 0, documents = 0, tokens = 0;
  uint64_t text_bytes = 0;       // of the documents, unpacked
  uint64_t empty_documents = 0;  // left out
  uint64_t changed_parts = 0;    // parts of documents (up to about a MiB) that do not decode to their exact bytes
  uint64_t malformed_lines = 0;  // left out
  std::vector<MalformedLine> first_malformed;
  EncodeCounts counts;
  int64_t vocabulary = 0;
  TokenType type = TokenType::uint16;
  int threads = 0;
  double seconds = 0;  // of encoding

  // As log lines: what was left out or changed.
  std::vector<std::string> warnings() const;
  Json json() const;
};

// Writes options.output.bin, .idx and .corpus.json, and the tokenizer that was trained for them, all of them or none.
// Each document ends with the tokenizer's end token. The result does not depend on the number of threads. Throws
// UserError for errors that the user can correct.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace terrace::data
