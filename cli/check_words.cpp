// Walks along the words of the command line and finds the unknown ones.
#include "cli/check_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/build_kind.h"
#include "cli/command_tree.h"
#include "cli/meant_words.h"
#include "terrace/base/error.h"
#include "terrace/base/text/spelling.h"

namespace terrace::cli {
namespace {

std::string typed_command(const Command& command) { return join_path("terrace", command.path); }

std::string guess(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearest_word(word, known);
  return nearest.empty() ? "." : fmt::format("; did you mean {}?", nearest);
}

// Whether the whole program has the subcommand and this build lacks it.
bool is_missing(const std::string& word) {
  const auto missing = build_kind().missing_commands;
  return std::ranges::find(missing, word) != missing.end();
}

[[noreturn]] void throw_unknown_command(const Command& command, const std::string& word) {
  if (command.path.empty() && is_missing(word)) {
    throw UserError::of(
        "terrace {} is not part of the planner build, which has no torch; for the whole program run tools/setup, then "
        "cmake --preset release and cmake --build --preset release",
        word);
  }
  throw UserError::of("{} has no subcommand {}{} Its subcommands are {}", typed_command(command),
                      word.empty() ? "\"\"" : word, guess(word, command.children), fmt::join(command.children, ", "));
}

[[noreturn]] void throw_unknown_flag(const Command& command, const std::string& name) {
  const std::string meant = meant_flag(command.path, name);
  if (!meant.empty()) throw UserError::of("{} has no flag {}; {}", typed_command(command), name, meant);
  std::vector<std::string> known;
  for (const Flag& flag : command.flags) known.insert(known.end(), flag.names.begin(), flag.names.end());
  throw UserError::of("{} has no flag {}{} See {} --help", typed_command(command), name, guess(name, known),
                      typed_command(command));
}

}  // namespace

void check_words(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  const Command* command = find_command(commands, "");
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") return;
    if (word.starts_with("--")) {
      const size_t equals = word.find('=');
      const Flag* flag = find_flag(*command, word.substr(0, equals));
      if (flag == nullptr) throw_unknown_flag(*command, word.substr(0, equals));
      if (flag->takes_value && equals == std::string::npos) ++i;
    } else if (word.starts_with('-')) {
      const Flag* flag = find_flag(*command, word);
      if (flag == nullptr && !meant_flag(command->path, word).empty()) throw_unknown_flag(*command, word);
      if (flag != nullptr && flag->takes_value) ++i;
    } else if (!command->children.empty()) {
      const auto child = std::ranges::find(command->children, word);
      if (child == command->children.end()) throw_unknown_command(*command, word);
      command = find_command(commands, join_path(command->path, word));
    }
  }
}

}  // namespace terrace::cli
