// Makes the manual page from the program's own commands, flags and examples.
#pragma once

#include <string>
#include <vector>

namespace terrace::cli {

struct Command;

// terrace(1) in the man macros of roff.
std::string man_page(const std::vector<Command>& commands);

}  // namespace terrace::cli
