// Shared by the tests of exported and imported tokenizers: small tokenizers of both kinds, and texts for them.
#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "terrace/data/text/tokenizer/byte_pair/byte_alphabet.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_model.h"
#include "terrace/data/text/tokenizer/tokenizer_training.h"
#include "tests/scratch_folder.h"

namespace terrace::exchange {

inline const std::vector<std::string> mixed_texts{
    "Hello world",
    "the number 7 comes before",
    "",
    " lead",
    "  two",
    "two  spaces\n\nand 123 lines\n",
    "\xC3\xA9t\xC3\xA9 \xE6\x9D\xB1\xE4\xBA\xAC \xF0\x9F\x98\x80",
    "It's 'it'\tand \x01",
};

// All bytes, three merges and GPT-2's pattern; the added tokens have the ids from 259.
inline data::BytePairModel byte_pairs(const std::vector<std::string>& added) {
  data::BytePairModel model;
  const auto add = [&](const std::string& spelling) {
    const auto id = static_cast<int32_t>(model.vocabulary.size());
    model.vocabulary[spelling] = id;
  };
  for (int byte = 0; byte < 256; ++byte) add(data::spelled(std::string(1, static_cast<char>(byte))));
  const std::string space = data::spelled(" ");
  for (const auto& [left, right] : {std::pair<std::string, std::string>{"t", "h"}, {"th", "e"}, {space, "n"}}) {
    model.merges.emplace_back(left, right);
    add(left + right);
  }
  int32_t id = 259;
  for (const std::string& text : added) model.added.push_back({.id = id++, .text = text});
  model.patterns = {data::gpt2_pattern};
  return model;
}

// A SentencePiece model of 300 tokens as terrace trains them.
inline std::string sentencepiece_model(const ScratchFolder& folder) {
  std::ofstream text(folder / "text.txt");
  for (int i = 0; i < 2000; ++i) text << "the number " << i << " comes before the number " << i + 1 << "\n";
  text.close();
  return data::train_tokenizer(data::find_input_files({folder / "text.txt"}, data::FormatChoice::plain), {},
                               {.vocabulary = 300});
}

}  // namespace terrace::exchange
