// Looks at the lines of a text for what YAML, JSON and TOML write.
#include "terrace/config/other_format.h"

#include <algorithm>
#include <cctype>

namespace terrace::config {
namespace {

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// "steps: 100", "train:" and "- model: a", but neither "at: = 3" nor "http://host", whose colon ends no name.
bool is_yaml(std::string_view line) {
  while (line.starts_with("- ")) line = trimmed(line.substr(2));
  const size_t colon = line.find(':');
  if (colon == 0 || colon == std::string_view::npos) return false;
  if (colon + 1 < line.size() && !is_blank(line[colon + 1])) return false;
  return std::ranges::none_of(line.substr(0, colon), [](char c) { return c == '=' || c == '[' || c == '{'; });
}

// "steps = 100" and "[train]".
bool is_toml(std::string_view line) {
  if (line.starts_with('[')) return line.find(']') != std::string_view::npos;
  const size_t equals = line.find('=');
  return equals != std::string_view::npos && equals > 0 && !is_yaml(line.substr(0, equals));
}

}  // namespace

std::string other_format(std::string_view text) {
  bool is_first = true, yaml = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    if (is_first && line.starts_with('{')) {
      return "this is JSON, and TOML is wanted: {\"train\": {\"steps\": 100}} is written as a line [train] and below "
             "it "
             "steps = 100";
    }
    is_first = false;
    if (line.starts_with("---") || line.starts_with("%YAML") || is_yaml(line)) {
      yaml = true;
    } else if (is_toml(line)) {
      return "";
    }
  }
  if (!yaml) return "";
  return "this is YAML, and TOML is wanted: \"train:\" with \"steps: 100\" below it is written as a line [train] and "
         "below it steps = 100";
}

}  // namespace terrace::config
