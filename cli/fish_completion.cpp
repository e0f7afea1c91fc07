// Writes the completion script for fish: one line for each word, with the command that the word belongs to.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_tree.h"
#include "cli/completion.h"

namespace terrace::cli {
namespace {

// Escapes text for single quotes.
std::string fish_escaped(const std::string& text) {
  std::string result;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string rule(const Command& command, const std::string& rest, const std::string& about) {
  return fmt::format("complete -c terrace -n '__terrace_in \"{}\"' {} -d '{}'\n", command.path, rest,
                     fish_escaped(about));
}

std::string flag_rule(const Command& command, const Flag& flag) {
  std::string rest;
  for (const std::string& name : flag.names) {
    rest += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (flag.takes_value && flag.choices.empty()) rest += " -r -F";
  if (flag.takes_value && !flag.choices.empty()) rest += fmt::format(" -x -a '{}'", fmt::join(flag.choices, " "));
  return rule(command, rest.substr(1), flag.about);
}

std::string fish_path_cases(const std::vector<Command>& commands) {
  std::string text;
  for (const Command& command : commands) {
    for (const std::string& child : command.children) {
      text += fmt::format("      case '{}/{}'\n        set path '{}'\n", command.path, child,
                          join_path(command.path, child));
    }
  }
  return text;
}

}  // namespace

std::string fish_completion(const std::vector<Command>& commands) {
  std::string text = fmt::format(R"(# Completion of terrace in fish, as `terrace completion fish` prints it.
function __terrace_in
  set -l path ''
  for word in (commandline -opc)[2..-1]
    switch "$path/$word"
{}    end
  end
  test "$path" = "$argv[1]"
end

)",
                                 fish_path_cases(commands));
  for (const Command& command : commands) {
    for (const std::string& child : command.children) {
      text += rule(command, fmt::format("-f -a '{}'", child),
                   find_command(commands, join_path(command.path, child))->about);
    }
    for (const Flag& flag : command.flags) text += flag_rule(command, flag);
    for (const Positional& positional : command.positionals) {
      if (positional.choices.empty()) continue;
      text += rule(command, fmt::format("-f -a '{}'", fmt::join(positional.choices, " ")), positional.about);
    }
  }
  return text;
}

}  // namespace terrace::cli
