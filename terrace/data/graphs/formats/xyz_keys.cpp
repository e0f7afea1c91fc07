// Divides the line by its characters, then converts values.
#include "terrace/data/graphs/formats/xyz_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/data/graphs/formats/text_numbers.h"

namespace terrace::data {
namespace {

bool is_blank_letter(char letter) {
  return std::string_view(" \t\r\n\v\f\x1c\x1d\x1e\x1f").find(letter) != std::string_view::npos;
}
bool is_digit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }

char closing_of(char letter) {
  switch (letter) {
    case '"':
    case '\'':
      return letter;
    case '{':
      return '}';
    case '[':
      return ']';
    default:
      return '\0';
  }
}

// Follows ASE's parser letter by letter; words become keys and values as the sign = and blanks between them say.
class PairsReader {
 public:
  explicit PairsReader(std::string_view line) : line_(line) {}

  std::vector<KeyAndValue> read() {
    for (size_t at = 0; at < line_.size(); ++at) take(at);
    if (closing_ != '\0' && line_.find('=', opened_) != std::string_view::npos) {
      throw UserError::of("line 2: {} is opened at {} and not closed, so that what follows with = is a text",
                          line_[opened_], line_.substr(opened_, 40));
    }
    end_word();
    if (is_value_) pairs_.back().value = "";
    return std::move(pairs_);
  }

 private:
  void take(size_t at) {
    const char letter = line_[at];
    if (std::exchange(is_escaped_, false)) return add(letter);
    if (letter == '\\') {
      is_escaped_ = true;
    } else if (closing_ != '\0') {
      if (letter == closing_) {
        closing_ = '\0';
      } else {
        add(letter);
      }
    } else if (closing_of(letter) != '\0') {
      closing_ = closing_of(letter);
      opened_ = at;
    } else if (is_blank_letter(letter)) {
      if (ends_with_sign_) refuse_swallowed();
      end_word();
    } else if (letter == '=') {
      take_equals();
    } else {
      add(letter);
    }
  }

  void add(char letter) {
    word_ += letter;
    has_word_ = true;
    ends_with_sign_ = false;
  }

  void take_equals() {
    // The sign stands within a value, or behind one and its blanks.
    if (has_word_ && is_value_) {
      if (had_blank_) refuse_swallowed();
      word_ += '=';
      ends_with_sign_ = true;
      return;
    }
    if (!has_word_ && is_value_) refuse_swallowed();
    end_word();
    if (pairs_.empty()) throw UserError("line 2: begins with a sign = that has no key before it");
    if (pairs_.back().value) {
      throw UserError::of("line 2: {}={} is followed by another sign =; put a value with = in quotes",
                          pairs_.back().key, *pairs_.back().value);
    }
    is_value_ = true;
    had_blank_ = false;
  }

  [[noreturn]] void refuse_swallowed() const {
    throw UserError::of(
        "line 2: {}= has no value before the next sign =, and ASE takes what follows for its value; give it a value in "
        "quotes or leave it out",
        pairs_.back().key);
  }

  // A word is the value of the key before it where a sign = stands between them.
  void end_word() {
    if (!has_word_) {
      had_blank_ = had_blank_ || is_value_;
      return;
    }
    if (is_value_) {
      pairs_.back().value = std::exchange(word_, {});
    } else {
      pairs_.push_back({.key = std::exchange(word_, {})});
    }
    is_value_ = has_word_ = had_blank_ = ends_with_sign_ = false;
  }

  std::string_view line_;
  std::vector<KeyAndValue> pairs_;
  std::string word_;
  bool has_word_ = false, is_value_ = false, ends_with_sign_ = false;
  bool had_blank_ = false;  // between = and the value
  bool is_escaped_ = false;
  char closing_ = '\0';
  size_t opened_ = 0;
};

std::optional<double> logical_of(std::string_view word) {
  for (const std::string_view yes : {"T", "true", "True", "TRUE"}) {
    if (word == yes) return 1;
  }
  for (const std::string_view no : {"F", "false", "False", "FALSE"}) {
    if (word == no) return 0;
  }
  return std::nullopt;
}

// Returns the words between blanks and commas.
std::vector<std::string> value_words(std::string value) {
  std::ranges::replace(value, ',', ' ');
  std::vector<std::string_view> words;
  split_words(value, words);
  return {words.begin(), words.end()};
}

template <typename Convert>
std::optional<std::vector<double>> all_converted(const std::vector<std::string>& words, const Convert& convert) {
  std::vector<double> numbers;
  for (const std::string& word : words) {
    const std::optional<double> number = convert(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// Reads a number whose exponent begins with D, such as -1.25D+01. Without a point or a sign it may be a name, such as
// 1D2.
std::optional<double> number_with_d(std::string_view word) {
  const size_t exponent = word.find_first_of("dD");
  if (exponent == std::string_view::npos || exponent + 1 >= word.size()) return python_number(word);
  const char next = word[exponent + 1];
  if (word.find('.') == std::string_view::npos && next != '+' && next != '-') return std::nullopt;
  std::string with_e(word);
  with_e[exponent] = 'e';
  return python_number(with_e);
}

// Returns a sentence about a text that was meant as numbers; "" for other texts.
std::string lost_numbers(const std::string& key, const std::string& value) {
  const std::vector<std::string> words = value_words(value);
  if (words.empty()) return "";
  if (all_converted(words, number_with_d)) {
    return fmt::format("{}={} has an exponent with D, which ASE takes for a text; write E", key, value);
  }
  if (value.find_first_of("[]{}") == std::string::npos) return "";
  std::string plain = value;
  const auto is_bracket = [](char letter) { return std::string_view("[]{}").find(letter) != std::string_view::npos; };
  std::ranges::replace_if(plain, is_bracket, ' ');
  const std::vector<std::string> inner = value_words(plain);
  if (inner.empty() || !all_converted(inner, number_with_d)) return "";
  return fmt::format("{}={} has brackets within brackets or quotes, which ASE takes for a text; write {}=\"{}\"", key,
                     value, key, fmt::join(inner, " "));
}

// Appends the numbers of nested lists of one shape; false where anything else is in them.
bool add_numbers(const std::string& key, const Json& json, bool has_nan, std::vector<double>& numbers) {
  if (json.is_array()) {
    const auto sizes_differ = [&](const Json& one) {
      return one.is_array() != json.front().is_array() || (one.is_array() && one.size() != json.front().size());
    };
    if (std::ranges::any_of(json, sizes_differ)) {
      throw UserError::of("line 2: {} has lists of different lengths in its JSON", key);
    }
    return std::ranges::all_of(json, [&](const Json& one) { return add_numbers(key, one, has_nan, numbers); });
  }
  if (json.is_null() && has_nan) {
    numbers.push_back(std::numeric_limits<double>::quiet_NaN());
    return true;
  }
  if (!json.is_number() && !json.is_boolean()) return false;
  numbers.push_back(json.is_boolean() ? static_cast<double>(json.get<bool>()) : json.get<double>());
  return true;
}

bool all_logicals(const Json& json) {
  return json.is_array() ? std::ranges::all_of(json, all_logicals) : json.is_boolean();
}

// Reads JSON as Python writes it, which may have NaN. NaN becomes null here; where there is a null or a text too, the
// value is no list of numbers.
ValueOfKey value_of_json(const std::string& key, std::string text) {
  if (text.find("Infinity") != std::string::npos) throw UserError::of("line 2: {} has an infinite number", key);
  const bool has_other = text.find("null") != std::string::npos || text.find('"') != std::string::npos;
  bool has_nan = false;
  for (size_t at = text.find("NaN"); at != std::string::npos; at = text.find("NaN", at)) {
    text.replace(at, 3, "null");
    has_nan = !has_other;
  }
  const Json parsed = parse_json_or_discard(text);
  if (parsed.is_discarded()) throw UserError::of("line 2: {} has text after _JSON that is no JSON", key);
  ValueOfKey value{.numbers = {}, .are_logicals = all_logicals(parsed)};
  return add_numbers(key, parsed, has_nan, value.numbers) ? value : ValueOfKey{};
}

// Returns the number that a word of digits, a point and an exponent stands for where no double can hold it: infinite or
// 0, by the place of its first digit that is not 0. No value for other words.
std::optional<double> number_beyond_doubles(std::string_view word) {
  const bool is_negative = word.starts_with('-');
  if (is_negative || word.starts_with('+')) word.remove_prefix(1);
  const size_t mantissa_end = std::min(word.find_first_of("eE"), word.size());
  const std::string_view mantissa = word.substr(0, mantissa_end);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const auto all_digits = [](std::string_view text) { return std::ranges::all_of(text, is_digit); };
  const bool has_digits = mantissa.size() > (point < mantissa.size() ? 1 : 0);
  if (!has_digits || !all_digits(mantissa.substr(0, point)) ||
      (point < mantissa.size() && !all_digits(mantissa.substr(point + 1)))) {
    return std::nullopt;
  }
  double exponent = 0;
  if (mantissa_end < word.size()) {
    std::string_view digits = word.substr(mantissa_end + 1);
    const bool is_small = digits.starts_with('-');
    if (is_small || digits.starts_with('+')) digits.remove_prefix(1);
    if (digits.empty() || !all_digits(digits)) return std::nullopt;
    for (const char digit : digits) exponent = 10 * exponent + (digit - '0');
    if (is_small) exponent = -exponent;
  }
  const size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return 0;
  const double place = static_cast<double>(point) - static_cast<double>(first) + exponent;
  const double size = place > 0 ? std::numeric_limits<double>::infinity() : 0;
  return is_negative ? -size : size;
}

}  // namespace

std::vector<KeyAndValue> keys_and_values(std::string_view line) { return PairsReader(line).read(); }

std::optional<double> python_number(std::string_view word) {
  std::string plain;
  for (size_t at = 0; at < word.size(); ++at) {
    const bool joins_digits =
        word[at] == '_' && at > 0 && at + 1 < word.size() && is_digit(word[at - 1]) && is_digit(word[at + 1]);
    if (!joins_digits) plain += word[at];
  }
  if (plain.find('(') != std::string::npos) return std::nullopt;  // std::from_chars takes nan(..) for a number
  const std::optional<double> number = number_of(plain);
  return number ? number : number_beyond_doubles(plain);
}

ValueOfKey value_of_key(const std::string& key, const std::string& value) {
  if (lower_case(key) == "uid") return {};
  const std::vector<std::string> words = value_words(value);
  if (auto numbers = all_converted(words, python_number)) return {.numbers = *std::move(numbers)};
  if (auto logicals = all_converted(words, logical_of)) return {.numbers = *std::move(logicals), .are_logicals = true};
  if (constexpr std::string_view json = "_JSON "; value.starts_with(json)) {
    return value_of_json(key, value.substr(json.size()));
  }
  return {.note = lost_numbers(key, value)};
}

std::string with_plain_blanks(std::string_view line) {
  // The spaces U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000 in UTF-8.
  static constexpr std::array<std::string_view, 19> spaces = {
      "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83",
      "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a",
      "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
  std::string plain(line);
  if (std::ranges::none_of(plain, [](char letter) { return (static_cast<unsigned char>(letter) & 0x80) != 0; }))
    return plain;
  for (const std::string_view space : spaces) {
    for (size_t at = plain.find(space); at != std::string::npos; at = plain.find(space, at))
      plain.replace(at, space.size(), " ");
  }
  return plain;
}

}  // namespace terrace::data
