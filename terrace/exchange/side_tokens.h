// The tokens that files beside a tokenizer add to it: added_tokens.json, tokenizer_config.json and others.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/data/text/tokenizer/token_matcher.h"

namespace terrace::exchange {

// The files of a folder that say something of its tokenizer; an empty object for one that is not there.
struct SideFiles {
  Json config = {};   // tokenizer_config.json
  Json special = {};  // special_tokens_map.json
  Json added = {};    // added_tokens.json: ids by token
};

// Throws UserError for a file that is no JSON object.
SideFiles read_side_files(const std::filesystem::path& folder);

// All tokens that they name with an id, in ascending order. Throws UserError where one id has two tokens.
std::vector<data::AddedToken> side_tokens(const SideFiles& files, const std::string& folder);

// The text of a special token such as "bos_token"; "" if neither file names it.
std::string special_token(const SideFiles& files, const char* key);

}  // namespace terrace::exchange
