// A byte-level BPE as plain data, and the file tokenizer.json that holds it (GPT-2's and Llama 3's kind).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "terrace/data/text/tokenizer/byte_pair/split_rule.h"
#include "terrace/data/text/tokenizer/token_matcher.h"

namespace terrace::data {

struct BytePairModel {
  std::unordered_map<std::string, int32_t> vocabulary;      // by spelling in the byte alphabet
  std::vector<std::pair<std::string, std::string>> merges;  // pairs of spellings in the order of merging
  std::vector<AddedToken> added;
  bool normal_form_c = false;  // the text that plain added tokens leave is brought to this form first
  // The pre-tokenizer: rules that each split the pieces of the previous one, then ByteLevel, then rules that see the
  // pieces as ByteLevel has spelled them in the byte alphabet.
  std::vector<SplitRule> patterns, byte_patterns;
  bool add_prefix_space = false;   // ByteLevel puts a space before a piece that does not start with one
  bool byte_level_splits = false;  // ByteLevel splits by gpt2_pattern
  bool ignore_merges = false;      // a word that is in the vocabulary becomes that token without merges
  bool operator==(const BytePairModel&) const = default;
};

// The expression by which GPT-2 splits text into words.
extern const char* const gpt2_pattern;

// Reads a tokenizer.json. Throws UserError that starts with `name` where the bytes are none, and for unsupported
// components, with their names and the supported ones.
BytePairModel parse_tokenizer_json(std::string_view text, const std::string& name);

// Reads GPT-2's older pair of files, vocab.json and merges.txt.
BytePairModel parse_vocabulary_and_merges(std::string_view vocabulary, std::string_view merges,
                                          const std::string& name);

// Returns the content of a tokenizer.json that the tokenizers package and parse_tokenizer_json() read.
std::string dump_tokenizer_json(const BytePairModel& model);

}  // namespace terrace::data
