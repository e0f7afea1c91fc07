// Writes and reads the tokenizer of a folder for transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "terrace/checkpoint/hf_folder.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace terrace::exchange {

// Throws UserError if the tokenizer has more tokens than the model, whose vocabulary is given.
void check_fits(const data::Tokenizer& tokenizer, int64_t vocabulary, const std::filesystem::path& path);

// Adds the tokenizer's own file, whose content is `bytes`, and the tokenizer_config.json that AutoTokenizer reads.
void add_hf_tokenizer(std::string bytes, const data::Tokenizer& tokenizer, int64_t sequence,
                      checkpoint::HfContents& contents);

// The tokenizer of a folder, as the content of a file that terrace reads: tokenizer.model, else tokenizer.json, else a
// tokenizer.json made of vocab.json and merges.txt. "" if there is none.
std::string read_hf_tokenizer(const std::filesystem::path& folder);

// The names of the files of a tokenizer in such folders.
const std::set<std::string>& files_of_tokenizer();

}  // namespace terrace::exchange
