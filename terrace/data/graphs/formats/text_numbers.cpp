// Reads numbers by std::from_chars, which depends on no locale.
#include "terrace/data/graphs/formats/text_numbers.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace terrace::data {
namespace {

constexpr std::string_view blanks = " \t\r\f\v";

template <typename Number>
std::optional<Number> whole_word(std::string_view word) {
  if (word.starts_with('+') && !word.substr(1).starts_with('-')) word.remove_prefix(1);
  Number number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (word.empty() || error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

}  // namespace

void split_words(std::string_view line, std::vector<std::string_view>& words) {
  words.clear();
  size_t at = line.find_first_not_of(blanks);
  while (at != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(blanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(blanks, end);
  }
}

std::optional<double> number_of(std::string_view word) { return whole_word<double>(word); }

std::optional<int64_t> whole_number_of(std::string_view word) { return whole_word<int64_t>(word); }

std::optional<std::string_view> TextLines::next() {
  if (at_ >= text_.size()) return std::nullopt;
  const size_t end = std::min(text_.find('\n', at_), text_.size());
  std::string_view line = text_.substr(at_, end - at_);
  at_ = end + 1;
  ++number_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace terrace::data
