// The part of a tokenizer.json that puts tokens before and behind each text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/text/json.h"

namespace terrace::exchange {

// Ids of the tokens that the post-processor adds to a single text.
struct AddedAround {
  std::vector<int64_t> before = {}, behind = {};
  bool operator==(const AddedAround&) const = default;
};

// Reads the post-processor in the content of a tokenizer.json, which data::Tokenizer has read. Throws UserError for a
// post-processor of another kind than the tokenizers package has.
AddedAround added_around(std::string_view file, const std::string& name);

// The text of the token with this id in such a file; "" if there is none.
std::string token_text(std::string_view file, int64_t id);

// A post-processor that puts one token before each text.
Json begin_token_processor(const std::string& text, int64_t id);

// Returns the content of the file with another post-processor and every other byte as it was.
std::string with_post_processor(std::string_view file, const Json& processor);

}  // namespace terrace::exchange
