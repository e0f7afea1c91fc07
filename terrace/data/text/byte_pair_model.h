// A byte-level BPE as plain data, and the file tokenizer.json that holds it (GPT-2's and Llama 3's kind).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace terrace::data {

// Found in text as a whole, before anything else.
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = true;      // a control token: decodes to nothing
  bool normalized = false;  // looked for in what the tokens without it leave
  bool operator==(const AddedToken&) const = default;
};

struct BytePairModel {
  std::unordered_map<std::string, int32_t> vocabulary;      // by spelling in the byte alphabet
  std::vector<std::pair<std::string, std::string>> merges;  // spellings, the first to be merged first
  std::vector<AddedToken> added;
  std::vector<std::string> patterns;  // each cuts the pieces of the one before
  bool add_prefix_space = false;      // a text that starts with no space gets one
  bool ignore_merges = false;         // a word that is in the vocabulary is that token
  bool operator==(const BytePairModel&) const = default;
};

// The expression that GPT-2 cuts text into words with.
extern const char* const gpt2_pattern;

// Throws UserError that starts with `name`: for what is no tokenizer.json, whatever the bytes are, and for components
// that are not supported, by name and with what is.
BytePairModel parse_tokenizer_json(std::string_view text, const std::string& name);

// GPT-2's older pair of files, vocab.json and merges.txt.
BytePairModel parse_vocabulary_and_merges(std::string_view vocabulary, std::string_view merges,
                                          const std::string& name);

// The content of a tokenizer.json that the tokenizers package and parse_tokenizer_json() read.
std::string dump_tokenizer_json(const BytePairModel& model);

}  // namespace terrace::data
