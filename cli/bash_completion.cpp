// Writes the completion script for bash: it finds the command on the line, then offers words by command and flag.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_tree.h"
#include "cli/completion.h"

namespace terrace::cli {
namespace {

std::string offer(const std::vector<std::string>& words) {
  return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", fmt::join(words, " "));
}

// No space may follow a word that ends in '=', since its value comes next.
std::string offer_values(const std::vector<std::string>& words) {
  const bool open = words.front().ends_with('=');
  return offer(words) + (open ? "; compopt -o nospace 2>/dev/null" : "");
}

std::string bash_path_cases(const std::vector<Command>& commands) {
  std::string text;
  for (const Command& command : commands) {
    for (const std::string& child : command.children) {
      text += fmt::format("      '{}/{}') path='{}' ;;\n", command.path, child, join_path(command.path, child));
    }
  }
  return text;
}

// A value without a list of words completes to file names, because of `complete -o default`.
std::string value_cases(const std::vector<Command>& commands) {
  std::string text;
  for (const Command& command : commands) {
    for (const Flag& flag : command.flags) {
      if (!flag.takes_value) continue;
      const std::string action = flag.choices.empty() ? "" : offer_values(flag.choices) + "; ";
      for (const std::string& name : flag.names) {
        text += fmt::format("    '{} {}') {}return ;;\n", command.path, name, action);
      }
    }
  }
  return text;
}

std::string flag_cases(const std::vector<Command>& commands) {
  std::string text;
  for (const Command& command : commands) {
    std::vector<std::string> names;
    for (const Flag& flag : command.flags) names.insert(names.end(), flag.names.begin(), flag.names.end());
    text += fmt::format("      '{}') {} ;;\n", command.path, offer(names));
  }
  return text;
}

std::string word_cases(const std::vector<Command>& commands) {
  std::string text;
  for (const Command& command : commands) {
    std::vector<std::string> words = command.children;
    for (const Positional& positional : command.positionals) {
      words.insert(words.end(), positional.choices.begin(), positional.choices.end());
    }
    if (!words.empty()) text += fmt::format("      '{}') {} ;;\n", command.path, offer(words));
  }
  return text;
}

}  // namespace

std::string bash_completion(const std::vector<Command>& commands) {
  return fmt::format(R"(# Completion of terrace in bash, as `terrace completion bash` prints it.
_terrace() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} path='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path/${{COMP_WORDS[i]}}" in
{}    esac
  done
  case "$path $previous" in
{}  esac
  if [[ $word == -* ]]; then
    case "$path" in
{}    esac
  else
    case "$path" in
{}    esac
  fi
}}
complete -o default -F _terrace terrace
)",
                     bash_path_cases(commands), value_cases(commands), flag_cases(commands), word_cases(commands));
}

}  // namespace terrace::cli
