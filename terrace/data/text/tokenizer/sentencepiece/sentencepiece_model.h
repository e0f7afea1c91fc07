// Reads the file of a SentencePiece model: its pieces, and how it normalises text before it looks for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/text/tokenizer/token_matcher.h"

namespace terrace::data {

inline constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581, which SentencePiece writes for a space

// The messages ModelProto, TrainerSpec and NormalizerSpec of sentencepiece_model.proto, with its default values.
struct SentencePieceModel {
  enum class Algorithm : uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };
  enum class PieceType : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text = {};  // with space marks
    float score = 0;
    PieceType type = PieceType::normal;
  };

  std::vector<Piece> pieces = {};  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool whitespace_as_suffix = false;  // a word's space is behind it
  std::string charsmap = {};          // what characters become (CharacterMap); "" keeps them all
  bool add_dummy_prefix = true;       // a space before the text, or behind it with whitespace_as_suffix
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;  // spaces become space marks

  // Pieces that with_added_tokens() appended to the model's own; none elsewhere. They are matched in text before the
  // model sees what is between them, as transformers does with the tokens that it adds.
  std::vector<AddedToken> added = {};
  bool restarts = true;  // text behind an added or control token begins with the dummy prefix, as a text of its own

  bool has_bytes() const;  // a piece of its own for each byte
};

// Reads a model. Throws UserError that starts with `name` where the bytes are no such message.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& name);

// Returns the model with further pieces. Tokens that the model has already, at the same id, are left out. Throws
// UserError where an id belongs to another piece, or a token has two ids.
std::string with_added_tokens(std::string_view bytes, std::vector<AddedToken> tokens, bool restarts,
                              const std::string& name);

// Returns the model with the normaliser replaced by one that only escapes spaces, for text that is normalised already.
// The result has no self-test, which expects the original's normaliser.
std::string without_normalizer(std::string_view bytes, const std::string& name);

}  // namespace terrace::data
