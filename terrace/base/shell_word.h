// Commands that a message offers, to be pasted into a shell.
#pragma once

#include <string>

namespace terrace {

// The text as a shell takes it for one word: in quotation marks where it needs them.
std::string shell_word(const std::string& text);

}  // namespace terrace
