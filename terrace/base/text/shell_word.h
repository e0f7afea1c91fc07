// Quotes words of the shell commands that messages suggest.
#pragma once

#include <string>

namespace terrace {

// The text as one word of a shell command, in quotation marks where it needs them.
std::string shell_word(const std::string& text);

}  // namespace terrace
