// Reads the wire format of Protocol Buffers, of which a SentencePiece model is one message.
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_model.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"

namespace terrace::data {
namespace {

using PieceType = SentencePieceModel::PieceType;

// The numbers of fields in sentencepiece_model.proto.
namespace model_field {
constexpr uint64_t pieces = 1, trainer_spec = 2, normalizer_spec = 3, self_test_data = 4;
// JSON about the pieces of with_added_tokens(), in the range that the message leaves to others, which SentencePiece
// skips.
constexpr uint64_t added_tokens = 71'001;
}  // namespace model_field
namespace piece_field {
constexpr uint64_t text = 1, score = 2, type = 3;
}
namespace trainer_field {
constexpr uint64_t model_type = 3, treat_whitespace_as_suffix = 24;
}
namespace normalizer_field {
constexpr uint64_t precompiled_charsmap = 2, add_dummy_prefix = 3, remove_extra_whitespaces = 4, escape_whitespaces = 5;
}

// A field of a message; `all` are its bytes with tag and length.
struct WireField {
  uint64_t number = 0, value = 0;  // value: of a varint
  std::string_view bytes = {}, all = {};
};

class WireReader {
 public:
  WireReader(std::string_view message, const std::string& name) : rest_(message), name_(name) {}

  bool done() const { return rest_.empty(); }

  WireField next() {
    const std::string_view before = rest_;
    const uint64_t tag = varint();
    WireField field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.bytes = take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.bytes = take(4);
        break;
      default:
        throw damaged();
    }
    field.all = before.substr(0, before.size() - rest_.size());
    return field;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1).front());
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    throw damaged();
  }

  std::string_view take(uint64_t size) {
    if (size > rest_.size()) throw damaged();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  UserError damaged() const { return UserError::of("{} is not a SentencePiece model: its fields are damaged", name_); }

  std::string_view rest_;
  const std::string& name_;
};

void for_each_field(std::string_view message, const std::string& name,
                    const std::function<void(const WireField&)>& take) {
  for (WireReader reader(message, name); !reader.done();) take(reader.next());
}

SentencePieceModel::Piece piece_of(std::string_view message, const std::string& name) {
  SentencePieceModel::Piece piece;
  for_each_field(message, name, [&](const WireField& field) {
    if (field.number == piece_field::text) piece.text = field.bytes;
    if (field.number == piece_field::score && field.bytes.size() == sizeof(float)) {
      std::memcpy(&piece.score, field.bytes.data(), sizeof(float));
    }
    if (field.number == piece_field::type) piece.type = static_cast<SentencePieceModel::PieceType>(field.value);
  });
  return piece;
}

void append_varint(std::string& message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) message += static_cast<char>(value | 0x80);
  message += static_cast<char>(value);
}

void append_field(std::string& message, uint64_t number, std::string_view bytes) {
  append_varint(message, number << 3 | 2);
  append_varint(message, bytes.size());
  message += bytes;
}

void append_piece(std::string& model, std::string_view text, PieceType type) {
  std::string piece;
  append_field(piece, piece_field::text, text);
  append_varint(piece, piece_field::score << 3 | 5);
  piece.append(sizeof(float), '\0');
  append_varint(piece, piece_field::type << 3);
  append_varint(piece, static_cast<uint64_t>(type));
  append_field(model, model_field::pieces, piece);
}

// Reads the JSON about added tokens, which is written behind the pieces.
void read_added_pieces(std::string_view text, const std::string& name, SentencePieceModel& model) {
  try {
    const Json json = parse_json(text);
    model.restarts = json.at("restarts").get<bool>();
    for (const Json& token : json.at("tokens")) {
      const auto id = token.at("id").get<size_t>();
      model.added.push_back({.id = static_cast<int32_t>(id),
                             .text = model.pieces.at(id).text,
                             .special = token.at("special").get<bool>(),
                             .lstrip = token.at("lstrip").get<bool>(),
                             .rstrip = token.at("rstrip").get<bool>(),
                             .single_word = token.at("single_word").get<bool>()});
    }
  } catch (const std::exception& error) {
    throw UserError::of("{} is not a SentencePiece model: its added tokens are damaged ({})", name, error.what());
  }
}

void read_trainer(std::string_view message, const std::string& name, SentencePieceModel& model) {
  for_each_field(message, name, [&](const WireField& field) {
    if (field.number == trainer_field::model_type) {
      model.algorithm = static_cast<SentencePieceModel::Algorithm>(field.value);
    }
    if (field.number == trainer_field::treat_whitespace_as_suffix) model.whitespace_as_suffix = field.value != 0;
  });
}

void read_normalizer(std::string_view message, const std::string& name, SentencePieceModel& model) {
  for_each_field(message, name, [&](const WireField& field) {
    if (field.number == normalizer_field::precompiled_charsmap) model.charsmap = field.bytes;
    if (field.number == normalizer_field::add_dummy_prefix) model.add_dummy_prefix = field.value != 0;
    if (field.number == normalizer_field::remove_extra_whitespaces) model.remove_extra_whitespaces = field.value != 0;
    if (field.number == normalizer_field::escape_whitespaces) model.escape_whitespaces = field.value != 0;
  });
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& name) {
  SentencePieceModel model;
  for_each_field(bytes, name, [&](const WireField& field) {
    if (field.number == model_field::pieces) model.pieces.push_back(piece_of(field.bytes, name));
    if (field.number == model_field::trainer_spec) read_trainer(field.bytes, name, model);
    if (field.number == model_field::normalizer_spec) read_normalizer(field.bytes, name, model);
    if (field.number == model_field::added_tokens) read_added_pieces(field.bytes, name, model);
  });
  return model;
}

bool SentencePieceModel::has_bytes() const { return std::ranges::count(pieces, PieceType::byte, &Piece::type) == 256; }

std::string with_added_tokens(std::string_view bytes, std::vector<AddedToken> tokens, bool restarts,
                              const std::string& name) {
  const SentencePieceModel model = parse_sentencepiece_model(bytes, name);
  std::map<std::string, size_t> ids;
  for (size_t id = 0; id < model.pieces.size(); ++id) ids[model.pieces[id].text] = id;
  std::erase_if(tokens, [&](const AddedToken& token) {
    const auto found = ids.find(token.text);
    return found != ids.end() && found->second == static_cast<size_t>(token.id);
  });
  if (tokens.empty()) return std::string(bytes);
  std::ranges::sort(tokens, {}, &AddedToken::id);
  std::string extended(bytes);
  size_t next = model.pieces.size();
  Json list = Json::array();
  for (const AddedToken& token : tokens) {
    const auto id = static_cast<size_t>(token.id);
    const auto found = ids.find(token.text);
    if (id < next || found != ids.end()) {
      throw UserError::of(
          "added token \"{}\" has id {}, but {} {}; the files beside the model are of another tokenizer", token.text,
          token.id, name,
          found != ids.end()
              ? fmt::format("has it as piece {}", found->second)
              : fmt::format("has \"{}\" there", id < model.pieces.size() ? model.pieces[id].text : "another"));
    }
    // Ids before the token's that no token has become unused pieces.
    for (; next < id; ++next) append_piece(extended, fmt::format("<unused {}>", next), PieceType::unused);
    append_piece(extended, token.text, token.special ? PieceType::control : PieceType::user_defined);
    ids[token.text] = next++;
    list.push_back({{"id", token.id},
                    {"special", token.special},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"single_word", token.single_word}});
  }
  append_field(extended, model_field::added_tokens, Json{{"restarts", restarts}, {"tokens", list}}.dump());
  return extended;
}

std::string without_normalizer(std::string_view bytes, const std::string& name) {
  std::string kept;
  for_each_field(bytes, name, [&](const WireField& field) {
    if (field.number != model_field::self_test_data) kept += field.all;
  });
  // Fields of a message that comes again replace those of the earlier one: no charsmap, add_dummy_prefix and
  // remove_extra_whitespaces false.
  constexpr std::string_view normalizer("\x12\x00\x18\x00\x20\x00", 6);
  kept += static_cast<char>(model_field::normalizer_spec << 3 | 2);
  kept += static_cast<char>(normalizer.size());
  return kept += normalizer;
}

}  // namespace terrace::data
