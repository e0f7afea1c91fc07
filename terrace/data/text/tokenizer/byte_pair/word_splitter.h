// Splits text into the words whose bytes a byte-level BPE merges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/text/tokenizer/byte_pair/byte_alphabet.h"
#include "terrace/data/text/tokenizer/byte_pair/byte_pair_model.h"
#include "terrace/data/text/tokenizer/byte_pair/unicode_pattern.h"

namespace terrace::data {

// The pre-tokenizer of a tokenizer.json. Safe to share between threads, each with a Matcher of its own.
class WordSplitter {
 public:
  WordSplitter() = default;
  // Throws UserError, naming `name`, for what is no valid expression.
  WordSplitter(const BytePairModel& model, const std::string& name);

  bool drops_text() const;

  class Matcher {
   public:
    explicit Matcher(const WordSplitter& splitter);

    // Calls word() for the words of valid UTF-8, in order, none of them empty. A space that ByteLevel puts before a
    // whole text is not added, but those before its pieces are.
    template <typename Word>
    void split(std::string_view text, const Word& word) {
      split_from(0, text, word);
    }

   private:
    template <typename Word>
    void split_from(size_t stage, std::string_view text, const Word& word) {
      std::string changed;
      if (stage == splitter_.spaced_at_ && !text.starts_with(' ')) {
        changed = " " + std::string(text);
        text = changed;
      }
      if (stage == matchers_.size()) {
        if (splitter_.spelled_at_ == SIZE_MAX) return word(text);
        return word(unspelled_piece(text));
      }
      std::string spelling;
      if (stage == splitter_.spelled_at_) {
        spelling = spelled(text);
        text = spelling;
      }
      split_by(splitter_.rules_[stage], matchers_[stage], text,
               [&](std::string_view piece) { split_from(stage + 1, piece, word); });
    }
    static std::string unspelled_piece(std::string_view spelling);

    const WordSplitter& splitter_;
    std::vector<UnicodePattern::Matcher> matchers_;
  };

 private:
  std::vector<SplitRule> rules_;
  std::vector<UnicodePattern> patterns_;
  size_t spaced_at_ = SIZE_MAX;   // the rule before which each piece gets a space in front
  size_t spelled_at_ = SIZE_MAX;  // the first rule that sees the byte alphabet; none: all see text
};

}  // namespace terrace::data
