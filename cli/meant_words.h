// Takes the ways in which other programs are asked for help and for their version.
#pragma once

#include <string>
#include <vector>

namespace terrace::cli {

// The words of a command line without the program's name, with those of the flags in place of "help", "help data
// prepare", "version", "-v" and "-V", which are no commands and no flags here. Other words stay as they are.
std::vector<std::string> meant_words(std::vector<std::string> words);

// Says what does here what a flag of this name does in other programs, such as --dry-run; "" where nothing is known.
std::string meant_flag(const std::string& command_path, const std::string& flag);

}  // namespace terrace::cli
