// Converts values to texts and numbers.
#include "terrace/search/study/value.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "terrace/config/domain.h"

namespace terrace::search {

std::string toml_text(const Value& value) {
  return std::visit(
      [](const auto& one) {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, std::string>) {
          return config::toml_text(std::string_view(one));
        } else {
          return config::toml_text(one);
        }
      },
      value);
}

std::string plain_text(const Value& value) {
  const auto* word = std::get_if<std::string>(&value);
  return word != nullptr ? *word : toml_text(value);
}

double number_of(const Value& value) {
  return std::visit(
      [](const auto& one) {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, std::string>) {
          return std::numeric_limits<double>::quiet_NaN();
        } else {
          return static_cast<double>(one);
        }
      },
      value);
}

Value whole_or_real(double number) {
  constexpr double most = 9e15;  // whole numbers up to here have a double of their own
  if (std::abs(number) <= most && std::floor(number) == number) return static_cast<int64_t>(number);
  return number;
}

std::optional<double> parse_number(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

bool is_missing(std::string_view text) { return text.empty() || text == "nan" || text == "NaN" || text == "None"; }

}  // namespace terrace::search
