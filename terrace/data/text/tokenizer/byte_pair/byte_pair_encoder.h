// Encodes with a byte-level BPE: first added tokens, then words by the tokenizer's expressions, then merges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/text/tokenizer/byte_pair/byte_pair_tokenizer.h"
#include "terrace/data/text/tokenizer/byte_pair/word_cache.h"
#include "terrace/data/text/tokenizer/text_encoder.h"

namespace terrace::data {

class BytePairEncoder : public TextEncoder {
 public:
  explicit BytePairEncoder(const BytePairTokenizer& tokenizer, SpecialTokens special = SpecialTokens::split)
      : tokenizer_(tokenizer), special_(special), splitter_(tokenizer.splitter_) {}

  void encode(std::string_view text, bool starts_text, bool ends_text, std::vector<int32_t>& ids) override;

 private:
  // A token of the word that is being merged; -1 once it is part of the one before.
  struct Symbol {
    int32_t id, previous, next;
  };
  // The tokens at `at` and behind it may become `result`.
  struct Candidate {
    int32_t rank, at, left, right, result;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };

  void encode_section(std::string_view text, bool starts_section, std::vector<int32_t>& ids);
  void encode_word(std::string_view word, std::vector<int32_t>& ids);
  void merge(std::string_view word, std::vector<int32_t>& ids);
  void add_candidate(int32_t left);

  const BytePairTokenizer& tokenizer_;
  SpecialTokens special_;
  WordSplitter::Matcher splitter_;
  WordCache words_;
  std::string normalized_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;  // a heap, the next merge first
};

}  // namespace terrace::data
