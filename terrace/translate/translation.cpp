// Writes translations as configurations.
#include "terrace/translate/translation.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "terrace/config/key.h"

namespace terrace::translate {

bool Wishes::gives(std::string_view key) const {
  return std::ranges::any_of(overrides, [&](const std::string& text) {
    const size_t first = text.find_first_not_of(' '), equals = text.find('=');
    if (first == std::string::npos || equals == std::string::npos) return false;
    const std::string_view name = std::string_view(text).substr(first, equals - first);
    return name.substr(0, name.find_last_not_of(' ') + 1) == key;
  });
}

std::string Translation::value_of(std::string_view key) const {
  const auto found = std::ranges::find(settings, key, &Setting::key);
  return found == settings.end() ? "" : found->value;
}

int64_t Translation::whole_value(std::string_view key, int64_t missing) const {
  const std::string text = value_of(key);
  int64_t value = missing;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int64_t product(int64_t a, int64_t b) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  return b > 0 && a > most / b ? most : a * b;
}

std::string toml_of(const Translation& translation) {
  std::string text;
  for (const std::string& section : config::section_names()) {
    std::string lines;
    for (const Setting& setting : translation.settings) {
      if (setting.key.starts_with(section + ".")) {
        lines += setting.key.substr(section.size() + 1) + " = " + setting.value + "\n";
      }
    }
    if (!lines.empty()) text += "[" + section + "]\n" + lines;
  }
  return text;
}

std::vector<std::string> overrides_of(const Translation& translation) {
  std::vector<std::string> overrides;
  for (const Setting& setting : translation.settings) overrides.push_back(setting.key + "=" + setting.value);
  return overrides;
}

}  // namespace terrace::translate
