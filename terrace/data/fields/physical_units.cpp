// Reads units as products of powers of known symbols.
#include "terrace/data/fields/physical_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <vector>

#include "terrace/base/text/lower_case.h"
#include "terrace/data/fields/unit_definitions.h"
#include "terrace/data/text/tokenizer/utf8.h"

namespace terrace::data {
namespace {

using Names = std::map<std::string, std::string, std::less<>>;

// Returns the units of whole texts that are no product of symbols, in lower case and without spaces and underscores.
const Names& whole_names() {
  static const Names names = {{"", "1"},
                              {"1", "1"},
                              {"-", "1"},
                              {"~", "1"},
                              {"none", "1"},
                              {"(0-1)", "1"},
                              {"0-1", "1"},
                              {"fraction", "1"},
                              {"unitless", "1"},
                              {"dimensionless", "1"},
                              {"nondim", "1"},
                              {"numeric", "1"},
                              {"proportion", "1"},
                              {"degc", "degC"},
                              {"degreec", "degC"},
                              {"c", "degC"},
                              {"°c", "degC"},
                              {"ºc", "degC"},
                              {"℃", "degC"},
                              {"deg.c", "degC"},
                              {"celsius", "degC"},
                              {"degreescelsius", "degC"},
                              {"degreecelsius", "degC"},
                              {"degreesc", "degC"},
                              {"degk", "K"},
                              {"degreesk", "K"},
                              {"degf", "degF"},
                              {"°", "degree"},
                              {"degreetrue", "degree"},
                              {"degreestrue", "degree"},
                              {"mofwaterequivalent", "m of water equivalent"}};
  return names;
}

const Names& symbols() {
  static const Names names = [] {
    Names all;
    for (const char* same :
         {"m",   "s",    "kg",   "g",   "K",  "Pa", "hPa", "kPa", "bar", "J",   "kJ",   "MJ",  "W",     "kW",  "N",
          "mol", "degC", "degF", "rad", "km", "cm", "mm",  "um",  "dam", "h",   "d",    "min", "kt",    "gpm", "gpdm",
          "DU",  "ppm",  "ppb",  "psu", "Sv", "mg", "ug",  "sr",  "V",   "dBZ", "okta", "%",   "degree"}) {
      all[same] = same;
    }
    const std::vector<std::pair<const char*, const char*>> others = {{"meter", "m"},
                                                                     {"meters", "m"},
                                                                     {"metre", "m"},
                                                                     {"metres", "m"},
                                                                     {"sec", "s"},
                                                                     {"second", "s"},
                                                                     {"seconds", "s"},
                                                                     {"kelvin", "K"},
                                                                     {"pascal", "Pa"},
                                                                     {"pascals", "Pa"},
                                                                     {"mb", "hPa"},
                                                                     {"mbar", "hPa"},
                                                                     {"millibar", "hPa"},
                                                                     {"millibars", "hPa"},
                                                                     {"hectopascal", "hPa"},
                                                                     {"hectopascals", "hPa"},
                                                                     {"joule", "J"},
                                                                     {"joules", "J"},
                                                                     {"watt", "W"},
                                                                     {"watts", "W"},
                                                                     {"percent", "%"},
                                                                     {"degrees", "degree"},
                                                                     {"deg", "degree"},
                                                                     {"radian", "rad"},
                                                                     {"radians", "rad"},
                                                                     {"hour", "h"},
                                                                     {"hours", "h"},
                                                                     {"hr", "h"},
                                                                     {"day", "d"},
                                                                     {"days", "d"},
                                                                     {"minute", "min"},
                                                                     {"minutes", "min"},
                                                                     {"knot", "kt"},
                                                                     {"knots", "kt"},
                                                                     {"dobson", "DU"},
                                                                     {"ppmv", "ppm"},
                                                                     {"ppbv", "ppb"},
                                                                     {"gram", "g"},
                                                                     {"gr", "g"},
                                                                     {"grams", "g"},
                                                                     {"kilogram", "kg"},
                                                                     {"okta", "okta"},
                                                                     {"oktas", "okta"}};
    for (const auto& [name, symbol] : others) all[name] = symbol;
    return all;
  }();
  return names;
}

std::string symbol_of(std::string_view word) {
  const auto exact = symbols().find(word);
  if (exact != symbols().end()) return exact->second;
  const std::string lower = lower_case(word);
  const auto found = std::ranges::find_if(symbols(), [&](const auto& one) { return lower_case(one.first) == lower; });
  return found == symbols().end() ? "" : found->second;
}

// Writes in ASCII the other letters that units have: those of powers, dots and the two letters mu.
std::string in_ascii(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 16> letters = {{{"⁰", "0"},
                                                                                      {"¹", "1"},
                                                                                      {"²", "2"},
                                                                                      {"³", "3"},
                                                                                      {"⁴", "4"},
                                                                                      {"⁵", "5"},
                                                                                      {"⁶", "6"},
                                                                                      {"⁷", "7"},
                                                                                      {"⁸", "8"},
                                                                                      {"⁹", "9"},
                                                                                      {"⁻", "-"},
                                                                                      {"⁺", "+"},
                                                                                      {"·", "."},
                                                                                      {"⋅", "."},
                                                                                      {"µ", "u"},
                                                                                      {"μ", "u"}}};
  std::string ascii;
  for (size_t at = 0; at < text.size();) {
    const auto letter =
        std::ranges::find_if(letters, [&](const auto& one) { return text.substr(at).starts_with(one.first); });
    ascii += letter == letters.end() ? text.substr(at, 1) : letter->second;
    at += letter == letters.end() ? 1 : letter->first.size();
  }
  return ascii;
}

// Returns the text in UTF-8. Older files are in Latin-1, which no text beyond ASCII in UTF-8 looks like.
std::string in_utf8(std::string_view text) {
  if (valid_length(text) == text.size()) return std::string(text);
  std::string utf8;
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    if (letter < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xC0U | (letter >> 6U));
      utf8 += static_cast<char>(0x80U | (letter & 0x3FU));
    }
  }
  return utf8;
}

// Cuts "m**2/(kg s)" into factors and reads them one by one.
class UnitReader {
 public:
  explicit UnitReader(std::string_view text) : text_(text) {}

  std::optional<std::string> read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '.' || c == '*') {
        ++at_;
      } else if (c == '(') {
        ++at_;
        signs_.push_back(divides_ ? -signs_.back() : signs_.back());
        divides_ = false;
      } else if (c == ')') {
        ++at_;
        if (signs_.size() == 1) return std::nullopt;
        signs_.pop_back();
        if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '-' ||
                                   text_[at_] == '^' || text_.substr(at_).starts_with("**"))) {
          return std::nullopt;  // a power of what is in parentheses
        }
      } else if (c == '/') {
        divides_ = true;
        ++at_;
      } else if (!read_factor()) {
        return std::nullopt;
      }
    }
    if (signs_.size() > 1) return std::nullopt;
    std::vector<std::string> parts;
    for (const auto& [symbol, power] : powers_) {
      if (power != 0) parts.push_back(power == 1 ? symbol : fmt::format("{}{}", symbol, power));
    }
    return parts.empty() ? "1" : fmt::format("{}", fmt::join(parts, " "));
  }

 private:
  bool read_factor() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalpha(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '%' || text_[at_] == '_')) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    int power = 1;
    if (word.empty()) {
      // A number 1, as in "1/s".
      if (text_[at_] != '1' || (at_ + 1 < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_ + 1])))) {
        return false;
      }
      ++at_;
      divides_ = false;
      return true;
    }
    const std::string symbol = symbol_of(word);
    if (symbol.empty() || !read_power(power)) return false;
    powers_[symbol] += signs_.back() * (divides_ ? -power : power);
    divides_ = false;
    return true;
  }

  bool read_power(int& power) {
    size_t at = at_;
    if (text_.substr(at).starts_with("**")) {
      at += 2;
    } else if (text_.substr(at).starts_with("^")) {
      at += 1;
    } else if (at == text_.size() || (std::isdigit(static_cast<unsigned char>(text_[at])) == 0 && text_[at] != '-')) {
      return true;
    }
    const auto [end, error] = std::from_chars(text_.data() + at, text_.data() + text_.size(), power);
    at_ = static_cast<size_t>(end - text_.data());
    return error == std::errc();
  }

  std::string_view text_;
  size_t at_ = 0;
  bool divides_ = false;
  std::vector<int> signs_ = {1};  // of the powers in each pair of parentheses that is open
  std::map<std::string, int> powers_;
};

bool is_one_of(std::string_view text, const std::vector<std::string_view>& words) {
  return std::ranges::find(words, lower_case(text)) != words.end();
}

// Returns units by the usual symbols and names alone. Their meaning in files of weather and climate is not always the
// general one: "mb" is a pressure here, and an area in udunits.
std::optional<std::string> usual_units(const std::string& utf8) {
  std::string packed = lower_case(utf8);
  std::erase_if(packed, [](char c) { return c == ' ' || c == '_'; });
  const auto whole = whole_names().find(packed);
  if (whole != whole_names().end()) return whole->second;
  const std::string ascii = in_ascii(utf8);
  return UnitReader(ascii).read();
}

// Returns the definition of canonical units by udunits, which takes sverdrups for sieverts.
std::string definition_of(const std::string& canonical) {
  return canonical.find("Sv") != std::string::npos ? canonical : unit_definition(canonical).value_or(canonical);
}

}  // namespace

std::optional<std::string> canonical_units(std::string_view text) {
  // Degrees of latitude and longitude are units of coordinates, which are no fields: a file with latitudes as a field
  // mostly has another grid than it seems to have.
  if (are_degrees_north(text) || are_degrees_east(text)) return std::nullopt;
  const std::string utf8 = in_utf8(text);
  const std::optional<std::string> usual = usual_units(utf8);
  // udunits takes "kg)" for "kg".
  const bool is_whole = std::ranges::count(utf8, '(') == std::ranges::count(utf8, ')');
  return usual || !is_whole ? usual : unit_definition(in_ascii(utf8));
}

bool are_same_units(std::string_view a, std::string_view b) {
  const std::optional<std::string> x = canonical_units(a), y = canonical_units(b);
  if (!x || !y) return false;
  return *x == *y || definition_of(*x) == definition_of(*y);
}

bool are_degrees_north(std::string_view units) {
  return is_one_of(units, {"degrees_north", "degree_north", "degree_n", "degrees_n", "degreen", "degreesn"});
}

bool are_degrees_east(std::string_view units) {
  return is_one_of(units, {"degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese"});
}

std::optional<double> hectopascals(std::string_view units) {
  const std::optional<std::string> known = usual_units(in_utf8(units));
  if (known == "hPa") return 1;
  if (known == "Pa") return 0.01;
  if (known == "kPa") return 10;
  if (known == "bar") return 1000;
  return std::nullopt;
}

}  // namespace terrace::data
