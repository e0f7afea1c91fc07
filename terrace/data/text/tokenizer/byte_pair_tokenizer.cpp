// Builds the tables of a byte-level BPE, and finds the positions at which text may be split.
#include "terrace/data/text/tokenizer/byte_pair_tokenizer.h"

#include <algorithm>
#include <array>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/byte_alphabet.h"
#include "terrace/data/text/tokenizer/byte_pair_encoder.h"
#include "terrace/data/text/tokenizer/normal_form.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

constexpr std::array<std::string_view, 6> end_token_names = {"<|endoftext|>", "<|end_of_text|>", "</s>",
                                                             "<|eos|>",       "<eos>",           "<|im_end|>"};

// Unicode's spaces outside of ASCII.
constexpr std::array<std::string_view, 8> wide_spaces = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80",
                                                         "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
                                                         "\xE2\x81\x9F", "\xE3\x80\x80"};

bool is_blank(char here) { return here == ' ' || (here >= '\t' && here <= '\r'); }

bool ends_with_space(std::string_view text) {
  if (static_cast<uint8_t>(text.back()) < 0x80) return is_blank(text.back());
  if (text.size() >= 3 && text.substr(text.size() - 3, 2) == "\xE2\x80" && text.back() <= '\x8A') return true;
  return std::any_of(wide_spaces.begin(), wide_spaces.end(), [&](auto space) { return text.ends_with(space); });
}

bool starts_with_space(std::string_view text) {
  if (static_cast<uint8_t>(text.front()) < 0x80) return is_blank(text.front());
  const size_t length = character_length(text);
  return length > 0 && ends_with_space(text.substr(0, length));
}

}  // namespace

BytePairTokenizer::BytePairTokenizer(BytePairModel model, const std::string& name) : model_(std::move(model)) {
  for (const std::string& pattern : model_.patterns) patterns_.emplace_back(pattern, name);
  read_vocabulary(name);
  read_merges(name);
  read_added(name);
  find_end_token();
  find_word_rules();
}

void BytePairTokenizer::read_vocabulary(const std::string& name) {
  // Ids far beyond their number would take memory for tokens that do not exist.
  const size_t limit = 4 * (model_.vocabulary.size() + model_.added.size()) + 4096;
  const auto place = [&](int32_t id, const std::string& token) -> std::string& {
    if (id < 0 || static_cast<size_t>(id) >= limit) {
      throw UserError::of("{}: \"{}\" has id {} among {} tokens", name, token, id, model_.vocabulary.size());
    }
    if (texts_.size() <= static_cast<size_t>(id)) texts_.resize(static_cast<size_t>(id) + 1);
    return texts_[static_cast<size_t>(id)];
  };
  for (const auto& [spelling, id] : model_.vocabulary) {
    std::string& text = place(id, spelling);
    if (!text.empty()) throw UserError::of("{}: id {} stands for \"{}\" and another token", name, id, spelling);
    // A token with other characters stands for itself; no text is encoded to it.
    text = unspelled(spelling).value_or(spelling);
    if (text.size() == 1 && spelled(text) == spelling) byte_ids_[static_cast<uint8_t>(text[0])] = id;
    if (model_.ignore_merges) words_.emplace(text, id);
  }
  for (const AddedToken& token : model_.added) place(token.id, token.text) = token.special ? "" : token.text;
  const auto missing = std::count(byte_ids_.begin(), byte_ids_.end(), -1);
  if (missing > 0) {
    throw UserError::of(
        "{}: {} of the 256 bytes have no token, and texts with them could not be kept; train it with "
        "initial_alphabet=ByteLevel.alphabet()",
        name, missing);
  }
}

void BytePairTokenizer::read_merges(const std::string& name) {
  const auto id_of = [&](const std::string& spelling) {
    const auto found = model_.vocabulary.find(spelling);
    if (found == model_.vocabulary.end()) {
      throw UserError::of("{}: a merge names \"{}\", which is not in the vocabulary", name, spelling);
    }
    return found->second;
  };
  merges_.reserve(model_.merges.size());
  int32_t rank = 0;
  for (const auto& [left, right] : model_.merges) {
    const int32_t left_id = id_of(left), right_id = id_of(right);
    merges_.insert_or_assign(pair_key(left_id, right_id), Merge{rank++, id_of(left + right)});
  }
}

void BytePairTokenizer::read_added(const std::string& name) {
  matched_ = model_.added;
  for (AddedToken& token : matched_) {
    const auto known = model_.vocabulary.find(token.text);
    if (known != model_.vocabulary.end() && known->second != token.id) {
      throw UserError::of("{}: added token \"{}\" has id {}, and {} in the vocabulary", name, token.text, token.id,
                          known->second);
    }
    if (model_.normal_form_c && token.normalized) {
      std::string buffer;
      token.text = std::string(to_normal_form_c(token.text, buffer));
    }
    auto& group = (token.normalized ? normalized_added_ : plain_added_)[static_cast<uint8_t>(token.text.front())];
    group.push_back(&token);
    if (std::any_of(token.text.begin(), token.text.end(), is_blank)) blank_added_.push_back(&token);
  }
  const auto longer = [](const AddedToken* a, const AddedToken* b) { return a->text.size() > b->text.size(); };
  for (AddedByByte* kind : {&plain_added_, &normalized_added_}) {
    for (auto& group : *kind) std::stable_sort(group.begin(), group.end(), longer);
  }
}

void BytePairTokenizer::find_end_token() {
  std::vector<const AddedToken*> special;
  for (const AddedToken& token : model_.added) {
    if (token.special) special.push_back(&token);
  }
  const AddedToken* end = special.size() == 1 ? special.front() : nullptr;
  for (std::string_view wanted : end_token_names) {
    const auto found = std::find_if(special.begin(), special.end(), [&](auto* token) { return token->text == wanted; });
    if (found == special.end()) continue;
    end = *found;
    break;
  }
  if (end == nullptr) return;
  end_token_ = end->id;
  end_token_name_ = end->text;
}

// Whether the words of the two texts are those of the texts joined.
bool BytePairTokenizer::keeps_words_apart(std::string_view left, std::string_view right) const {
  const auto words_of = [this](const std::string& text) {
    std::vector<std::string> words{text};
    for (const UnicodePattern& pattern : patterns_) {
      std::vector<std::string> pieces;
      for (const std::string& word : words) {
        UnicodePattern::Matcher(pattern).split(word, [&](std::string_view piece) { pieces.emplace_back(piece); });
      }
      words = std::move(pieces);
    }
    return words;
  };
  std::vector<std::string> parts = words_of(std::string(left));
  for (std::string& word : words_of(std::string(right))) parts.push_back(std::move(word));
  return parts == words_of(std::string(left) + std::string(right));
}

// What a character of each kind shows is taken to hold for its kind.
void BytePairTokenizer::find_word_rules() {
  const std::array<std::string, 10> kinds{"a", "Z", "7", "!", "'", "_", "\xC3\xA9", "\xE6\x9D\xB1", "\xF0\x9F\x98\x80",
                                          "'s"};
  for (const std::string& left : kinds) {
    for (const std::string& right : kinds) {
      for (const char* spaces : {" ", "  ", " \n"}) {
        spaces_start_words_ = spaces_start_words_ && keeps_words_apart(left, spaces + right);
      }
      newlines_end_words_ = newlines_end_words_ && keeps_words_apart(left + "\n", right);
    }
  }
}

bool BytePairTokenizer::may_cut(std::string_view text, size_t at) const {
  const bool before_space = spaces_start_words_ && text[at] == ' ' && !ends_with_space(text.substr(0, at));
  const bool behind_newline = newlines_end_words_ && at > 1 && text[at - 1] == '\n' &&
                              !ends_with_space(text.substr(0, at - 1)) && !starts_with_space(text.substr(at));
  if (!before_space && !behind_newline) return false;
  return std::none_of(blank_added_.begin(), blank_added_.end(), [&](const AddedToken* token) {
    for (size_t inside = 1; inside < token->text.size() && inside <= at; ++inside) {
      if (text.substr(at - inside).starts_with(token->text)) return true;
    }
    return false;
  });
}

size_t BytePairTokenizer::cut(std::string_view text) const {
  for (size_t at = text.size(); at-- > 1;) {
    if (may_cut(text, at)) return at;
  }
  return cut_at_blank(text);  // not exact
}

std::unique_ptr<TextEncoder> BytePairTokenizer::make_encoder() const {
  return std::make_unique<BytePairEncoder>(*this);
}

}  // namespace terrace::data
