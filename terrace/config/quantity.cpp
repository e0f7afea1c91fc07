// Reads and writes numbers with units.
#include "terrace/config/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/domain.h"

namespace terrace::config {
namespace {

// One of the unit is 10^exponent * factor of what the value is stored in. The power of ten is applied to the decimal
// text and the factor is a power of two or an integer, so that "2.5 us" is the double nearest to 2.5e-6.
struct QuantityUnit {
  Measure measure;
  std::string_view word;
  int exponent = 0;
  double factor = 1;
};

constexpr double kibi = 1024.0, mebi = kibi * kibi, gibi = mebi * kibi, tebi = gibi * kibi;

// Units of each measure, from the smallest decimal unit to the largest, then the others.
constexpr std::array quantity_units = {
    QuantityUnit{Measure::bytes, "B"},
    QuantityUnit{Measure::bytes, "kB", 3},
    QuantityUnit{Measure::bytes, "MB", 6},
    QuantityUnit{Measure::bytes, "GB", 9},
    QuantityUnit{Measure::bytes, "TB", 12},
    QuantityUnit{Measure::bytes, "KiB", 0, kibi},
    QuantityUnit{Measure::bytes, "MiB", 0, mebi},
    QuantityUnit{Measure::bytes, "GiB", 0, gibi},
    QuantityUnit{Measure::bytes, "TiB", 0, tebi},
    QuantityUnit{Measure::bytes_per_second, "B/s"},
    QuantityUnit{Measure::bytes_per_second, "kB/s", 3},
    QuantityUnit{Measure::bytes_per_second, "MB/s", 6},
    QuantityUnit{Measure::bytes_per_second, "GB/s", 9},
    QuantityUnit{Measure::bytes_per_second, "TB/s", 12},
    QuantityUnit{Measure::bytes_per_second, "KiB/s", 0, kibi},
    QuantityUnit{Measure::bytes_per_second, "MiB/s", 0, mebi},
    QuantityUnit{Measure::bytes_per_second, "GiB/s", 0, gibi},
    QuantityUnit{Measure::bytes_per_second, "TiB/s", 0, tebi},
    QuantityUnit{Measure::bytes_per_second, "kb/s", 3, 0.125},
    QuantityUnit{Measure::bytes_per_second, "Mb/s", 6, 0.125},
    QuantityUnit{Measure::bytes_per_second, "Gb/s", 9, 0.125},
    QuantityUnit{Measure::bytes_per_second, "Tb/s", 12, 0.125},
    QuantityUnit{Measure::flops_per_second, "FLOP/s"},
    QuantityUnit{Measure::flops_per_second, "MFLOP/s", 6},
    QuantityUnit{Measure::flops_per_second, "GFLOP/s", 9},
    QuantityUnit{Measure::flops_per_second, "TFLOP/s", 12},
    QuantityUnit{Measure::flops_per_second, "PFLOP/s", 15},
    QuantityUnit{Measure::seconds, "ns", -9},
    QuantityUnit{Measure::seconds, "us", -6},
    QuantityUnit{Measure::seconds, "ms", -3},
    QuantityUnit{Measure::seconds, "s"},
    QuantityUnit{Measure::hours, "h"},
    QuantityUnit{Measure::hours, "d", 0, 24},
    QuantityUnit{Measure::watts, "mW", -3},
    QuantityUnit{Measure::watts, "W"},
    QuantityUnit{Measure::watts, "kW", 3},
};

std::string_view example_of(Measure measure) {
  static constexpr std::array examples = {"64 GiB", "25 GB/s", "312 TFLOP/s", "2.5 us", "500 h", "400 W"};
  return examples[static_cast<size_t>(measure)];
}

// "B, kB, MB or GB".
std::string units_of(Measure measure) {
  std::vector<std::string> words;
  for (const QuantityUnit& unit : quantity_units) {
    if (unit.measure == measure) words.emplace_back(unit.word);
  }
  return listed(words);
}

const QuantityUnit* find_unit(Measure measure, std::string_view word) {
  for (const QuantityUnit& unit : quantity_units) {
    if (unit.measure == measure && unit.word == word) return &unit;
  }
  return nullptr;
}

std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

// The decimal number times 10^exponent, rounded once.
std::optional<double> parse_scaled(std::string_view text, int exponent) {
  const size_t mark = text.find_first_of("eE");
  int64_t own = 0;
  if (mark != std::string_view::npos) {
    std::string_view digits = text.substr(mark + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), own);
  }
  return parse_number(fmt::format("{}e{}", text.substr(0, mark), own + exponent));
}

// nullopt if the text is not a number with one of the measure's units.
std::optional<double> parse_quantity(std::string_view text, Measure measure) {
  const size_t digits_end = text.find_first_not_of("0123456789.eE+-");
  if (digits_end == 0 || digits_end == std::string_view::npos) return std::nullopt;
  std::string_view word = text.substr(digits_end);
  word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
  const QuantityUnit* unit = find_unit(measure, word);
  const std::string_view number = text.substr(0, digits_end);
  if (unit == nullptr || !parse_number(number)) return std::nullopt;
  const std::optional<double> value = parse_scaled(number, unit->exponent);
  return value ? std::optional(*value * unit->factor) : std::nullopt;
}

// The shortest decimal digits that are read back as the value, which is 0.digits * 10^point.
struct Decimal {
  std::string digits;
  int point = 0;
};

Decimal shortest_decimal(double value) {
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific).ptr;
  const std::string_view whole(text.data(), static_cast<size_t>(end - text.data()));
  const size_t mark = whole.find('e');
  Decimal decimal;
  for (const char c : whole.substr(0, mark)) {
    if (c != '.') decimal.digits += c;
  }
  std::string_view exponent = whole.substr(mark + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), decimal.point);
  ++decimal.point;
  return decimal;
}

// 0.digits * 10^point without an exponent.
std::string plain(const Decimal& decimal, int point) {
  const int size = static_cast<int>(decimal.digits.size());
  if (point <= 0) return "0." + std::string(static_cast<size_t>(-point), '0') + decimal.digits;
  if (point >= size) return decimal.digits + std::string(static_cast<size_t>(point - size), '0');
  return decimal.digits.substr(0, static_cast<size_t>(point)) + "." + decimal.digits.substr(static_cast<size_t>(point));
}

}  // namespace

std::string quantity_text(double value, Measure measure) {
  TERRACE_CHECK(std::isfinite(value) && value >= 0, "{} is not a quantity", value);
  const Decimal decimal = shortest_decimal(value);
  std::string shortest;
  if (value == 0) {
    const auto unit = std::ranges::find(quantity_units, measure, &QuantityUnit::measure);
    return fmt::format("0 {}", unit->word);
  }
  for (const QuantityUnit& unit : quantity_units) {
    if (unit.measure != measure) continue;
    if (unit.factor == 1) {
      // A larger unit is better as long as the number is at least 1; the first unit takes any number.
      const int point = decimal.point - unit.exponent;
      if (!shortest.empty() && point < 1) continue;
      shortest = fmt::format("{} {}", plain(decimal, point), unit.word);
      continue;
    }
    // Powers of two divide without an error.
    if (unit.factor < kibi || value < unit.factor) continue;
    const Decimal quotient = shortest_decimal(value / unit.factor);
    std::string text = fmt::format("{} {}", plain(quotient, quotient.point), unit.word);
    if (text.size() < shortest.size()) shortest = std::move(text);
  }
  return shortest;
}

std::string Quantity::description() const {
  const std::string range =
      std::isinf(most) ? fmt::format("at least {}", quantity_text(least, measure))
                       : fmt::format("from {} to {}", quantity_text(least, measure), quantity_text(most, measure));
  return fmt::format("a string with a unit such as \"{}\", {}", example_of(measure), range);
}

std::string Quantity::read(const toml::node& node, double& value) const {
  std::optional<double> quantity;
  if (node.is_string()) quantity = parse_quantity(*node.value<std::string>(), measure);
  if (!quantity) {
    return fmt::format("must be a string with a number and a unit, such as \"{}\"; the units are {}{}",
                       example_of(measure), units_of(measure),
                       measure == Measure::bytes_per_second ? ", where b are bits" : "");
  }
  if (!(*quantity >= least && *quantity <= most)) {
    return std::isinf(most)
               ? fmt::format("must be at least {}", quantity_text(least, measure))
               : fmt::format("must be from {} to {}", quantity_text(least, measure), quantity_text(most, measure));
  }
  value = *quantity;
  return "";
}

}  // namespace terrace::config
