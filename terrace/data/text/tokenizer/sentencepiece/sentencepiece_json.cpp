// Writes the normalizer, the model and the decoder that do what SentencePiece does.
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_json.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

using Algorithm = SentencePieceModel::Algorithm;
using PieceType = SentencePieceModel::PieceType;

std::string base64(std::string_view bytes) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view group = bytes.substr(at, 3);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (i < group.size() ? static_cast<uint8_t>(group[i]) : 0U);
    for (size_t i = 0; i < 4; ++i) text += i <= group.size() ? letters[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

// Text between matched tokens is normalised by itself. Where it gets no dummy prefix of its own, the pre-tokenizer puts
// one before the whole text instead.
bool prefix_by_pre_tokenizer(const SentencePieceModel& model) { return model.add_dummy_prefix && !model.restarts; }

Json sentencepiece_normalizer(const SentencePieceModel& model) {
  Json steps = Json::array();
  if (!model.charsmap.empty()) {
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(model.charsmap)}});
  }
  if (model.remove_extra_whitespaces) {
    steps.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  const std::string space(model.escape_whitespaces ? space_mark : " ");
  if (model.add_dummy_prefix && !prefix_by_pre_tokenizer(model)) {
    steps.push_back({{"type", "Prepend"}, {"prepend", space}});
  }
  if (model.escape_whitespaces) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space}});
  }
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

Json sentencepiece_pre_tokenizer(const SentencePieceModel& model) {
  if (!prefix_by_pre_tokenizer(model)) return nullptr;
  return {{"type", "Metaspace"}, {"replacement", space_mark}, {"prepend_scheme", "first"}, {"split", false}};
}

Json sentencepiece_decoder(const SentencePieceModel& model) {
  Json steps = Json::array();
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", space_mark}}}, {"content", " "}});
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (model.add_dummy_prefix) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

// Returns control and unknown tokens, pieces that are matched as a whole, and tokens that were added to the model.
Json sentencepiece_added_tokens(const SentencePieceModel& model) {
  Json tokens = Json::array();
  const auto add = [&](const AddedToken& token) {
    tokens.push_back({{"id", token.id},
                      {"content", token.text},
                      {"single_word", token.single_word},
                      {"lstrip", token.lstrip},
                      {"rstrip", token.rstrip},
                      {"normalized", false},
                      {"special", token.special}});
  };
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const auto& [text, score, type] = model.pieces[i];
    const auto id = static_cast<int32_t>(i);
    if (const auto own = std::ranges::find(model.added, id, &AddedToken::id); own != model.added.end()) {
      add(*own);
    } else if (type == PieceType::control || type == PieceType::unknown || type == PieceType::user_defined) {
      add({.id = id, .text = text, .special = type != PieceType::user_defined});
    }
  }
  return tokens;
}

// Returns pairs of pieces that make a piece, those that SentencePiece merges first in front: by score, and as the
// converter of transformers has them where one piece has several.
Json sentencepiece_merges(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, const SentencePieceModel::Piece*> known;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.type == PieceType::normal || piece.type == PieceType::unused) known[piece.text] = &piece;
  }
  struct Merge {
    std::string_view left, right;
    float score;
  };
  std::vector<Merge> list;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.type != PieceType::normal) continue;
    const std::string_view text = piece.text;
    for (size_t at = character_length(text); at > 0 && at < text.size(); at += character_length(text.substr(at))) {
      const std::string_view left = text.substr(0, at), right = text.substr(at);
      if (known.contains(left) && known.contains(right)) list.push_back({left, right, piece.score});
      if (character_length(right) == 0) break;  // not UTF-8
    }
  }
  std::ranges::stable_sort(list, [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, b.left.size()) < std::tuple(-b.score, a.left.size());
  });
  Json pairs = Json::array();
  for (const Merge& merge : list) pairs.push_back(Json::array({merge.left, merge.right}));
  return pairs;
}

Json sentencepiece_bpe(const SentencePieceModel& model, const std::string& unknown) {
  Json vocabulary = Json::object();
  // The entries are added past the object's own search for a key, which starts at the first one each time.
  auto& entries = vocabulary.get_ref<Json::object_t&>();
  for (size_t id = 0; id < model.pieces.size(); ++id) entries.emplace_back(model.pieces[id].text, id);
  Json json = {{"type", "BPE"},
               {"dropout", nullptr},
               {"unk_token", unknown},
               {"continuing_subword_prefix", nullptr},
               {"end_of_word_suffix", nullptr},
               {"fuse_unk", true},
               {"byte_fallback", model.has_bytes()},
               {"ignore_merges", false}};
  json["vocab"] = std::move(vocabulary);
  json["merges"] = sentencepiece_merges(model);
  return json;
}

Json sentencepiece_unigram(const SentencePieceModel& model, size_t unknown) {
  float least = 0;
  for (const SentencePieceModel::Piece& piece : model.pieces) least = std::min(least, piece.score);
  Json vocabulary = Json::array();
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    const bool is_used = piece.type == PieceType::normal || piece.type == PieceType::user_defined;
    // The other pieces get a score so low that no text is split into them.
    vocabulary.push_back(Json::array({piece.text, is_used ? piece.score : least - 1000}));
  }
  return {
      {"type", "Unigram"}, {"unk_id", unknown}, {"vocab", std::move(vocabulary)}, {"byte_fallback", model.has_bytes()}};
}

}  // namespace

std::string dump_tokenizer_json(const SentencePieceModel& model, const std::string& name) {
  if (model.algorithm != Algorithm::bpe && model.algorithm != Algorithm::unigram) {
    throw UserError::of("{} is a model of whole words or of characters, which transformers has no tokenizer for", name);
  }
  if (model.whitespace_as_suffix) {
    throw UserError::of("{} marks spaces at the end of words, which transformers has no tokenizer for", name);
  }
  const auto unknown = std::ranges::find(model.pieces, PieceType::unknown, &SentencePieceModel::Piece::type);
  if (unknown == model.pieces.end()) throw UserError::of("{} has no unknown token", name);
  const auto unknown_id = static_cast<size_t>(unknown - model.pieces.begin());
  Json file = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", sentencepiece_added_tokens(model)},
               {"normalizer", sentencepiece_normalizer(model)},
               {"pre_tokenizer", sentencepiece_pre_tokenizer(model)},
               {"post_processor", nullptr},
               {"decoder", sentencepiece_decoder(model)}};
  file["model"] = model.algorithm == Algorithm::bpe ? sentencepiece_bpe(model, unknown->text)
                                                    : sentencepiece_unigram(model, unknown_id);
  return file.dump(1) + "\n";
}

}  // namespace terrace::data
