// Reports the contents of a corpus of tokens: `terrace data inspect`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/data/text/corpus_index.h"
#include "terrace/data/text/corpus_record.h"

namespace terrace::data {

struct CorpusSummary {
  uint64_t documents = 0, sequences = 0, tokens = 0;
  uint64_t bin_bytes = 0, index_bytes = 0;
  TokenType type = TokenType::uint16;
  // The lengths of documents in tokens, end tokens included; all 0 without documents.
  uint64_t shortest = 0, longest = 0;
  double median = 0, mean = 0;
  int64_t smallest_token = 0, largest_token = 0;
  std::optional<TokenizerRecord> tokenizer;  // the one that made the corpus; none where it is not recorded
  std::string sample;  // the first tokens of the document in the middle, decoded; "" without a tokenizer

  Json json() const;
  std::string table() const;
};

// Checks every entry of the index and every token. `tokenizer` is the path of a tokenizer or "". Throws UserError where
// the corpus is corrupt or was made with another tokenizer, and where a token is not below its vocabulary.
CorpusSummary inspect(const std::string& prefix, const std::string& tokenizer, int64_t sample_tokens);

}  // namespace terrace::data
