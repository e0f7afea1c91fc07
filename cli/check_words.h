// Finds the word of a command line that no command or flag is called, and names what was probably meant.
#pragma once

#include <string>
#include <vector>

namespace terrace::cli {

struct Command;

// Throws UserError that names the unknown word and the nearest known one. What else is wrong is left to the parser.
void check_words(const std::vector<Command>& commands, const std::vector<std::string>& words);

}  // namespace terrace::cli
