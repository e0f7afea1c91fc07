// Words and numbers of the lines of text files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace terrace::data {

// Splits a line into the parts between white space.
void split_words(std::string_view line, std::vector<std::string_view>& words);

// Return the whole word as a number, which may begin with + and be nan or inf; no value for anything else.
std::optional<double> number_of(std::string_view word);
std::optional<int64_t> whole_number_of(std::string_view word);

// Takes lines of a text one after another, without their ends ("\n" or "\r\n").
class TextLines {
 public:
  explicit TextLines(std::string_view text) : text_(text) {}
  // Returns the next line; no value at the end of the text.
  std::optional<std::string_view> next();
  int64_t number() const { return number_; }  // of the last line taken, from 1
  size_t position() const { return at_; }     // of the next line in the text

 private:
  std::string_view text_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

}  // namespace terrace::data
