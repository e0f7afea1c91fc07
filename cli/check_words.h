// Finds a word of a command line that is no known command or flag, and suggests what was probably meant.
#pragma once

#include <string>
#include <vector>

namespace terrace::cli {

struct Command;

// Throws a UserError that names the unknown word and the nearest known one. The parser finds all other mistakes.
void check_words(const std::vector<Command>& commands, const std::vector<std::string>& words);

}  // namespace terrace::cli
