// Says what becomes of the text of a control token in a document, such as <|endoftext|> in a page about tokenizers.
#pragma once

#include <cstdint>

namespace terrace::data {

enum class SpecialTokens : uint8_t {
  split,  // plain text, as with split_special_tokens = true in transformers
  keep,   // the control token
};

}  // namespace terrace::data
