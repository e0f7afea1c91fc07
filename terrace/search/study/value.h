// A value of a parameter, as TOML has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace terrace::search {

using Value = std::variant<bool, int64_t, double, std::string>;

std::string toml_text(const Value& value);
// The text of a value in a cell of results.csv: words without quotation marks.
std::string plain_text(const Value& value);
// The number of a value: true is 1 and false 0; a word is NaN.
double number_of(const Value& value);
// A whole number if the number is one, otherwise a real.
Value whole_or_real(double number);

// The finite number that the whole text is, if it is one.
std::optional<double> parse_number(const std::string& text);

// Whether a cell of results.csv has no value: it is empty, or nan or None, as DeepHyper writes.
bool is_missing(std::string_view text);

}  // namespace terrace::search
