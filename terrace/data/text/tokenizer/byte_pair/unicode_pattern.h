// A regular expression over Unicode text, as tokenizer.json names them, that cuts text into its matches and what lies
// between.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace terrace::data {

// Safe to share between threads, each with a Matcher of its own.
class UnicodePattern {
 public:
  // Throws UserError, naming `file_name`, for what is no valid expression.
  UnicodePattern(const std::string& expression, const std::string& file_name);

  // Matches for one thread.
  class Matcher {
   public:
    explicit Matcher(const UnicodePattern& pattern);

    // Calls piece(part, is_match) for the pieces of valid UTF-8, in order, none of them empty; together they are the
    // text.
    template <typename Piece>
    void split(std::string_view text, const Piece& piece) {
      size_t done = 0;  // all before it is in a piece
      while (const std::optional<Match> match = next(text, done)) {
        if (match->begin > done) piece(text.substr(done, match->begin - done), false);
        piece(text.substr(match->begin, match->end - match->begin), true);
        done = match->end;
      }
      if (done < text.size()) piece(text.substr(done), false);
    }

   private:
    struct Match {
      size_t begin, end;
    };
    // The first match at or behind `from` that is not empty.
    std::optional<Match> next(std::string_view text, size_t from);

    std::shared_ptr<const pcre2_real_code_8> code_;
    std::shared_ptr<pcre2_real_match_data_8> found_;
  };

 private:
  std::shared_ptr<const pcre2_real_code_8> code_;
};

}  // namespace terrace::data
