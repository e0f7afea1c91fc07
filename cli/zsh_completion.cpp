// Writes the completion script for zsh: one function for each command, which calls _arguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_tree.h"
#include "cli/completion.h"

namespace terrace::cli {
namespace {

// Escapes text for single quotes, and the brackets and colons that _arguments would interpret.
std::string zsh_escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result;
}

std::string function_name(const std::string& path) {
  std::string name = "_terrace";
  if (!path.empty()) name += '_';
  for (const char c : path) name += c == ' ' ? '_' : c;
  return name;
}

std::string values(const std::vector<std::string>& choices) {
  if (choices.empty()) return "_files";
  const bool open = choices.front().ends_with('=');
  return open ? fmt::format("compadd -S \"\" -- {}", fmt::join(choices, " "))
              : fmt::format("({})", fmt::join(choices, " "));
}

std::string flag_arguments(const Flag& flag) {
  std::string text;
  for (const std::string& name : flag.names) {
    text += fmt::format("    '{}{}[{}]", flag.repeats ? "*" : "", name, zsh_escaped(flag.about));
    if (flag.takes_value) text += fmt::format(":value:{}", values(flag.choices));
    text += "' \\\n";
  }
  return text;
}

std::string leaf_function(const Command& command) {
  std::string text = fmt::format("{}() {{\n  _arguments -s \\\n", function_name(command.path));
  for (const Flag& flag : command.flags) text += flag_arguments(flag);
  int place = 1;
  for (const Positional& positional : command.positionals) {
    const std::string which = positional.repeats ? "*" : std::to_string(place++);
    text += fmt::format("    '{}:{}:{}' \\\n", which, zsh_escaped(positional.name), values(positional.choices));
  }
  return text + "    && return 0\n}\n\n";
}

std::string branch_function(const Command& command, const std::vector<Command>& commands) {
  std::string flags, described, cases;
  for (const Flag& flag : command.flags) flags += flag_arguments(flag);
  for (const std::string& child : command.children) {
    const Command* below = find_command(commands, join_path(command.path, child));
    const std::string first_line = below->about.substr(0, below->about.find('\n'));
    described += fmt::format(" '{}:{}'", child, zsh_escaped(first_line));
    cases += fmt::format("        {}) {} ;;\n", child, function_name(below->path));
  }
  return fmt::format(R"({}() {{
  local curcontext="$curcontext" state line
  typeset -A opt_args
  _arguments -C \
{}    '1: :->command' '*:: :->rest' && return 0
  case $state in
    command)
      local -a commands=({})
      _describe command commands
      ;;
    rest)
      case $line[1] in
{}      esac
      ;;
  esac
}}

)",
                     function_name(command.path), flags, described, cases);
}

}  // namespace

std::string zsh_completion(const std::vector<Command>& commands) {
  std::string text = "#compdef terrace\n# Completion of terrace in zsh, as `terrace completion zsh` prints it.\n\n";
  for (const Command& command : commands) {
    text += command.children.empty() ? leaf_function(command) : branch_function(command, commands);
  }
  return text + "if [ \"$funcstack[1]\" = _terrace ]; then\n  _terrace \"$@\"\nelse\n  compdef _terrace terrace\nfi\n";
}

}  // namespace terrace::cli
