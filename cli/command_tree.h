// Reads the program's commands and flags as plain data from the tree that parses them. Completion, the manual page and
// suggestions for misspelt words are made from this data.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace terrace::cli {

struct Flag {
  std::vector<std::string> names;  // "--set", "-h"
  std::string about;
  std::vector<std::string> choices;  // the allowed values; empty: any value
  bool takes_value = false;
  bool repeats = false;
  std::string default_value;
};

struct Positional {
  std::string name, about = {};
  std::vector<std::string> choices;
  bool required = false;
  bool repeats = false;
};

struct Command {
  std::string path;  // "data prepare"; "" for the program itself
  std::string about;
  std::vector<Flag> flags = {};
  std::vector<Positional> positionals = {};
  std::vector<std::string> children = {};  // names of the commands below, such as "prepare"
};

// All commands in the order of help: the program itself first, and each command before its subcommands.
std::vector<Command> commands_of(const CLI::App& program);

// Both return nullptr if there is no such command or flag.
const Command* find_command(const std::vector<Command>& commands, const std::string& path);
const Flag* find_flag(const Command& command, const std::string& name);

// "data" and "prepare" give "data prepare"; "" and "data" give "data", as do "data" and "".
std::string join_path(const std::string& path, const std::string& name);

}  // namespace terrace::cli
