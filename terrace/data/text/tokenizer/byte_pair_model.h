// A byte-level BPE as plain data, and the file tokenizer.json that holds it (GPT-2's and Llama 3's kind).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace terrace::data {

// A token that is matched in the text as a whole, before words are split.
struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = true;      // a control token: decodes to nothing
  bool normalized = false;  // matched only in the text that added tokens without this flag leave, after the normalizer
  bool operator==(const AddedToken&) const = default;
};

struct BytePairModel {
  std::unordered_map<std::string, int32_t> vocabulary;      // by spelling in the byte alphabet
  std::vector<std::pair<std::string, std::string>> merges;  // pairs of spellings in the order of merging
  std::vector<AddedToken> added;
  std::vector<std::string> patterns;  // each splits the pieces of the previous one
  bool normal_form_c = false;         // the text that plain added tokens leave is brought to this form first
  bool add_prefix_space = false;      // a text that does not start with a space gets one
  bool ignore_merges = false;         // a word that is in the vocabulary becomes that token without merges
  bool operator==(const BytePairModel&) const = default;
};

// The expression by which GPT-2 splits text into words.
extern const char* const gpt2_pattern;

// Throws UserError that starts with `name` where the bytes are not a tokenizer.json, and for unsupported components,
// with their names and the supported ones.
BytePairModel parse_tokenizer_json(std::string_view text, const std::string& name);

// GPT-2's older pair of files, vocab.json and merges.txt.
BytePairModel parse_vocabulary_and_merges(std::string_view vocabulary, std::string_view merges,
                                          const std::string& name);

// The content of a tokenizer.json that the tokenizers package and parse_tokenizer_json() read.
std::string dump_tokenizer_json(const BytePairModel& model);

}  // namespace terrace::data
