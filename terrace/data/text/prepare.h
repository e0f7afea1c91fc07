// Makes a corpus of tokens from raw text: `terrace data prepare`.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/data/prepare_ranks.h"
#include "terrace/data/text/corpus_index.h"
#include "terrace/data/text/text_blocks.h"
#include "terrace/data/text/token_parts.h"
#include "terrace/data/text/tokenizer/special_tokens.h"

namespace terrace::data {

struct PrepareOptions {
  std::vector<std::string> inputs;  // files and folders
  FilePatterns patterns;            // of the files in folders
  std::string output;               // prefix of .bin and .idx
  std::string tokenizer;            // path of a tokenizer: read, or written where `train` is set
  bool train = false;
  std::string end_token;    // that closes documents, by its number or text; "": the tokenizer's
  std::string begin_token;  // that stands before documents, by its number or text; "": none does
  SpecialTokens special_tokens = SpecialTokens::split;
  int64_t vocabulary = 32'000;       // of a trained tokenizer
  uint64_t sample_bytes = 16 << 20;  // of text that a tokenizer is trained on
  FormatChoice format = FormatChoice::by_name;
  BlockRules rules;
  uint64_t max_malformed = 0;  // lines; one more fails the run
  int threads = 0;             // 0: one per core
  bool overwrite = false;
  bool resume = false;  // take what a preparation of the same output that was killed or interrupted had finished
  // The processes that share the work, all with the same options; nullptr: this one alone.
  PrepareRanks* ranks = nullptr;
  double seconds_between_records = 30;  // between records of the input files that are finished
  // Once true, the run ends with an error, and keeps nothing but the input files that are finished, for resume.
  const std::atomic<bool>* stop = nullptr;
};

// Returns the prefix that is meant by --output: "data/val" for "data/val.bin" and "data/val.idx".
std::string output_prefix(const std::string& output);

struct PrepareReport : EncodedText {
  uint64_t files = 0;
  int64_t vocabulary = 0;
  bool tokenizer_changes_text = false;  // Tokenizer::changes_text()
  SpecialTokens special_tokens = SpecialTokens::split;
  TokenType type = TokenType::uint16;
  int threads = 0;     // of all ranks
  double seconds = 0;  // of encoding

  double bytes_per_token() const;
  double megabytes_per_second() const;  // of text
  // Returns log lines about what was left out or changed.
  std::vector<std::string> warnings() const;
  Json json() const;
};

// Writes options.output.bin, .idx and .corpus.json, and the tokenizer that was trained for them, all of them or none.
// Each document ends with the end token. The result does not depend on the number of threads and ranks: ranks share the
// input files by size (file_parts.h). The report is the first rank's; that of other ranks is empty. Throws UserError
// for errors that the user can correct, on all ranks, with text on the first alone.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace terrace::data
