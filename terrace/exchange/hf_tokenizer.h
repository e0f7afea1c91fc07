// Writes and reads the tokenizer of a folder for transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/checkpoint/hf_folder.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace terrace::exchange {

// Throws UserError if the tokenizer has more tokens than the model, whose vocabulary is given.
void check_fits(const data::Tokenizer& tokenizer, int64_t vocabulary, const std::filesystem::path& path);

// Adds the tokenizer's own file, whose content is `bytes`, the tokenizer.json that AutoTokenizer opens, and
// tokenizer_config.json. AutoTokenizer then puts the token `begin` before each text, or none if it is -1, and nothing
// behind it; the own file is changed only if it is a tokenizer.json that puts others.
void add_hf_tokenizer(std::string bytes, const data::Tokenizer& tokenizer, int64_t sequence,
                      checkpoint::HfContents& contents, int64_t begin = -1);

// Says what AutoTokenizer does with the tokenizer of a model of this type in spite of tokenizer_config.json; "" where
// it gives our ids. `file` is the tokenizer.json.
std::string forced_class(const std::string& model_type, std::string_view file);

struct FolderTokenizer {
  // The content of a file that terrace reads: tokenizer.model with the tokens that other files add to it, else
  // tokenizer.json, else a tokenizer.json made of vocab.json and merges.txt. "" if there is none.
  std::string bytes = {};
  std::string begin_token = {};            // that AutoTokenizer puts before each text; "" if it puts none
  std::vector<std::string> left_out = {};  // in words: what these files say that terrace does not keep
};

// Throws UserError where the files contradict each other, and for tokens that none of these files can take.
FolderTokenizer read_folder_tokenizer(const std::filesystem::path& folder);
std::string read_hf_tokenizer(const std::filesystem::path& folder);  // the bytes alone

// The names of the files of a tokenizer in such folders.
const std::set<std::string>& files_of_tokenizer();

}  // namespace terrace::exchange
