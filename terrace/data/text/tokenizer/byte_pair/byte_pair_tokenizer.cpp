// Builds the tables of a byte-level BPE, and finds the positions at which text may be split.
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_tokenizer.h"

#include <algorithm>
#include <array>

#include "terrace/base/error.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_alphabet.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_encoder.h"
#include "terrace/data/text/tokenizer/sentencepiece/normal_form.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

constexpr std::array<std::string_view, 7> end_token_names = {"<|endoftext|>",
                                                             "<|end_of_text|>",
                                                             "</s>",
                                                             "<|eos|>",
                                                             "<eos>",
                                                             "<|im_end|>",
                                                             "<\xEF\xBD\x9C"
                                                             "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

// Returns whether a byte is in any character of UTF-8; no valid text has the others.
bool occurs_in_utf8(size_t byte) { return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5); }

}  // namespace

BytePairTokenizer::BytePairTokenizer(BytePairModel model, const std::string& name) : model_(std::move(model)) {
  splitter_ = WordSplitter(model_, name);
  prefixes_section_ = model_.add_prefix_space && model_.patterns.empty();
  find_end_token();
  read_vocabulary(name);
  read_merges(name);
  read_added(name);
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
  for (const AddedToken& token : model_.added) {
    place(token.id, token.text) = token.special || token.id == end_token_ ? "" : token.text;
  }
  int missing = 0;
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    if (byte_ids_[byte] >= 0) continue;
    has_bytes_ = false;
    if (occurs_in_utf8(byte)) ++missing;
  }
  if (missing > 0) {
    throw UserError::of(
        "{}: {} of the 256 bytes have no token though UTF-8 uses them, and texts with them could not be kept; train it "
        "with "
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
  for (AddedToken token : model_.added) {
    const auto known = model_.vocabulary.find(token.text);
    if (known != model_.vocabulary.end() && known->second != token.id) {
      throw UserError::of("{}: added token \"{}\" has id {}, and {} in the vocabulary", name, token.text, token.id,
                          known->second);
    }
    token.special = token.special || token.id == end_token_;
    if (token.special) special_names_.push_back(token.text);
    if (model_.normal_form_c && token.normalized) {
      std::string buffer;
      token.text = std::string(to_normal_form_c(token.text, buffer));
    }
    (token.normalized ? normalized_added_ : plain_added_).add(std::move(token));
  }
}

// Finds the end token by name, among the special tokens and then among those that the file does not call special; else
// it is the only special one.
void BytePairTokenizer::find_end_token() {
  std::vector<const AddedToken*> special, others;
  for (const AddedToken& token : model_.added) (token.special ? special : others).push_back(&token);
  const auto named = [](const std::vector<const AddedToken*>& among) -> const AddedToken* {
    for (std::string_view wanted : end_token_names) {
      const auto found = std::find_if(among.begin(), among.end(), [&](auto* token) { return token->text == wanted; });
      if (found != among.end()) return *found;
    }
    return nullptr;
  };
  const AddedToken* end = named(special);
  if (end == nullptr) end = named(others);
  if (end == nullptr && special.size() == 1) end = special.front();
  if (end == nullptr) return;
  end_token_ = end->id;
  end_token_name_ = end->text;
}

// Returns whether the words of the two texts are those of the texts joined.
bool BytePairTokenizer::keeps_words_apart(std::string_view left, std::string_view right) const {
  const auto words_of = [this](const std::string& text) {
    std::vector<std::string> words;
    WordSplitter::Matcher(splitter_).split(text, [&](std::string_view word) { words.emplace_back(word); });
    return words;
  };
  std::vector<std::string> parts = words_of(std::string(left));
  for (std::string& word : words_of(std::string(right))) parts.push_back(std::move(word));
  return parts == words_of(std::string(left) + std::string(right));
}

// Finds the rules by one character of each kind, whose behaviour is taken to hold for its kind.
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
  return (before_space || behind_newline) && !plain_added_.crosses(text, at) && !normalized_added_.crosses(text, at);
}

size_t BytePairTokenizer::cut(std::string_view text) const {
  for (size_t at = text.size(); at-- > 1;) {
    if (may_cut(text, at)) return at;
  }
  return cut_at_blank(text);  // not exact
}

std::unique_ptr<TextEncoder> BytePairTokenizer::make_encoder(SpecialTokens special) const {
  return std::make_unique<BytePairEncoder>(*this, special);
}

}  // namespace terrace::data
