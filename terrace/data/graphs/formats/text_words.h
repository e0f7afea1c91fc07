// Takes the words of a text one after another, for formats in which line ends mean little.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace terrace::data {

class TextWords {
 public:
  explicit TextWords(std::string_view text) : text_(text) {}

  // Returns the next word between white space; no value at the end of the text.
  std::optional<std::string_view> next();
  // Returns the next word, which stays the next one.
  std::optional<std::string_view> peek() const;
  // Return the rest of the line that the last word is on, and the line after it, without its end; "" at the end of the
  // text.
  std::string_view rest_of_line();
  std::string_view next_line();
  int64_t line() const { return line_; }  // of the last word, from 1

  // Return the next word as text or a number. Throw UserError with the line, and `what` the word should be, where the
  // text ends or has another word.
  std::string_view word(std::string_view what);
  double number(std::string_view what);
  int64_t whole(std::string_view what, int64_t least, int64_t most);

 private:
  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace terrace::data
