// Finds words, and counts the lines between them.
#include "terrace/data/graphs/formats/text_words.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/data/graphs/formats/text_numbers.h"

namespace terrace::data {
namespace {

constexpr std::string_view space_letters = " \t\r\n\f\v";

}  // namespace

std::optional<std::string_view> TextWords::next() {
  const size_t begin = text_.find_first_not_of(space_letters, at_);
  if (begin == std::string_view::npos) return std::nullopt;
  line_ += std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                      text_.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
  const size_t end = std::min(text_.find_first_of(space_letters, begin), text_.size());
  at_ = end;
  return text_.substr(begin, end - begin);
}

std::optional<std::string_view> TextWords::peek() const { return TextWords(*this).next(); }

std::string_view TextWords::rest_of_line() {
  const size_t end = std::min(text_.find('\n', at_), text_.size());
  const std::string_view rest = text_.substr(at_, end - at_);
  at_ = end;
  return rest;
}

std::string_view TextWords::next_line() {
  rest_of_line();
  if (at_ == text_.size()) return {};
  ++at_;
  ++line_;
  std::string_view line = rest_of_line();
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view TextWords::word(std::string_view what) {
  const std::optional<std::string_view> found = next();
  if (!found) throw UserError::of("ends after line {} where {} should be", line_, what);
  return *found;
}

double TextWords::number(std::string_view what) {
  const std::string_view text = word(what);
  const std::optional<double> number = number_of(text);
  if (!number) throw UserError::of("line {}: \"{}\" is no number, where {} should be", line_, text.substr(0, 40), what);
  return *number;
}

int64_t TextWords::whole(std::string_view what, int64_t least, int64_t most) {
  const std::string_view text = word(what);
  const std::optional<int64_t> number = whole_number_of(text);
  if (number && *number >= least && *number <= most) return *number;
  throw UserError::of("line {}: \"{}\" is no whole number from {} to {}, where {} should be", line_, text.substr(0, 40),
                      least, most, what);
}

}  // namespace terrace::data
