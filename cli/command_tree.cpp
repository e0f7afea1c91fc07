// Reads commands and flags from CLI11's tree.
#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "terrace/config/family.h"
#include "terrace/models/planned_families.h"

namespace terrace::cli {
namespace {

// Validators describe the words that they accept as {a,b}; validators that translate words describe them as
// {a->0,b->1}.
std::vector<std::string> words_of(const std::string& type_name) {
  const size_t begin = type_name.find('{'), end = type_name.find('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  std::vector<std::string> words;
  for (const std::string& word : CLI::detail::split(type_name.substr(begin + 1, end - begin - 1), ',')) {
    words.push_back(word.substr(0, word.find("->")));
  }
  return words;
}

std::vector<std::string> config_keys() {
  std::vector<std::string> words;
  for (const config::Family* family : models::planned_families()) {
    for (const config::Key& key : config::keys_of(family)) {
      const std::string word = key.full_name() + "=";
      if (std::ranges::find(words, word) == words.end()) words.push_back(word);
    }
  }
  return words;
}

Flag flag_of(const CLI::Option& option) {
  Flag flag{.names = {},
            .about = option.get_description(),
            .choices = words_of(option.get_type_name()),
            .takes_value = option.get_items_expected_max() > 0,
            .repeats = option.get_items_expected_max() > 1,
            .default_value = option.get_default_str()};
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  if (flag.names.back() == "--set") flag.choices = config_keys();
  if (flag.names.back() == "--resume") flag.choices = {"auto"};
  return flag;
}

void add_commands(const CLI::App& app, const std::string& path, std::vector<Command>& commands) {
  Command command{.path = path, .about = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) {
      command.flags.push_back(flag_of(*option));
    } else {
      command.positionals.push_back({.name = option->get_name(),
                                     .about = option->get_description(),
                                     .choices = words_of(option->get_type_name()),
                                     .required = option->get_required(),
                                     .repeats = option->get_items_expected_max() > 1});
    }
  }
  const auto children = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* child : children) command.children.push_back(child->get_name());
  commands.push_back(std::move(command));
  for (const CLI::App* child : children) add_commands(*child, join_path(path, child->get_name()), commands);
}

}  // namespace

std::string join_path(const std::string& path, const std::string& name) {
  return path.empty() || name.empty() ? path + name : path + " " + name;
}

std::vector<Command> commands_of(const CLI::App& program) {
  std::vector<Command> commands;
  add_commands(program, "", commands);
  return commands;
}

const Command* find_command(const std::vector<Command>& commands, const std::string& path) {
  const auto found = std::ranges::find(commands, path, &Command::path);
  return found == commands.end() ? nullptr : &*found;
}

const Flag* find_flag(const Command& command, const std::string& name) {
  for (const Flag& flag : command.flags) {
    if (std::ranges::find(flag.names, name) != flag.names.end()) return &flag;
  }
  return nullptr;
}

}  // namespace terrace::cli
