// Makes completion scripts for shells from the program's own commands and flags.
#pragma once

#include <string>
#include <vector>

namespace terrace::cli {

struct Command;

std::string bash_completion(const std::vector<Command>& commands);
std::string zsh_completion(const std::vector<Command>& commands);
std::string fish_completion(const std::vector<Command>& commands);

}  // namespace terrace::cli
