// Rewrites the first word, and knows a few flags by name.
#include "cli/meant_words.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace terrace::cli {

std::vector<std::string> meant_words(std::vector<std::string> words) {
  if (words.empty()) return words;
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  } else if (words.size() == 1 && (words.front() == "version" || words.front() == "-v" || words.front() == "-V")) {
    words.front() = "--version";
  }
  return words;
}

std::string meant_flag(const std::string& command_path, const std::string& flag) {
  constexpr std::array<std::string_view, 3> trying = {"--dry-run", "--dryrun", "--dry_run"};
  constexpr std::array<std::string_view, 3> versions = {"-v", "-V", "-version"};
  if (std::ranges::find(trying, flag) != trying.end()) {
    if (command_path == "train") return "--check makes every check up to the first step and trains nothing";
    if (command_path == "launch") return "without --submit the job is printed and not submitted";
    return "terrace train --check trains nothing, and terrace launch without --submit submits nothing";
  }
  if (std::ranges::find(versions, flag) != versions.end()) return "terrace --version prints the version";
  return "";
}

}  // namespace terrace::cli
