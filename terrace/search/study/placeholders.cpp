// Finds names in braces.
#include "terrace/search/study/placeholders.h"

#include <algorithm>

namespace terrace::search {
namespace {

bool belongs_to_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Calls plain(text) and name(text) for the parts of the command in turn.
template <typename Plain, typename Name>
void for_each_part(const std::string& command, const Plain& plain, const Name& name) {
  size_t at = 0, done = 0;
  while ((at = command.find('{', at)) != std::string::npos) {
    size_t end = at + 1;
    while (end < command.size() && belongs_to_name(command[end])) ++end;
    const bool is_name = end > at + 1 && end < command.size() && command[end] == '}';
    if (!is_name || (at > 0 && command[at - 1] == '$')) {
      ++at;
      continue;
    }
    plain(command.substr(done, at - done));
    name(command.substr(at + 1, end - at - 1));
    at = done = end + 1;
  }
  plain(command.substr(done));
}

}  // namespace

std::vector<std::string> names_in_braces(const std::string& text) {
  std::vector<std::string> names;
  for_each_part(
      text, [](const std::string&) {},
      [&](const std::string& name) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      });
  return names;
}

std::string filled(const std::string& text, const std::function<std::string(const std::string& name)>& value_of) {
  std::string result;
  for_each_part(
      text, [&](const std::string& plain) { result += plain; },
      [&](const std::string& name) { result += value_of(name); });
  return result;
}

}  // namespace terrace::search
