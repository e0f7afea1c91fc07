// A SentencePiece model as a tokenizer.json of the tokenizers package.
#pragma once

#include <string>

#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_model.h"

namespace terrace::data {

// The ids that the package makes of a text are those of the model, where the text holds no texts of control tokens,
// which the package takes for these, and nothing that is unknown to a model without byte pieces. There is no
// post-processor. Throws UserError that starts with `name` for a model of words or characters, or with spaces at the
// end of words, which the package does not have.
std::string dump_tokenizer_json(const SentencePieceModel& model, const std::string& name);

}  // namespace terrace::data
