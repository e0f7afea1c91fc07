// Splits the text of a command line into words as a shell does, without running anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace terrace::translate {

// The words of the first command of `text`. Quotes, backslashes and continued lines mean what they mean in a shell, and
// a line break separates words as a blank does. Comments are left out, and so is what follows the command: a pipe, a
// redirection or a second command. Throws UserError for a quotation mark without its partner and for values that only
// the user's shell knows, such as $HIDDEN_SIZE or $(hostname), with all of their names; `source` says where the text is
// from.
std::vector<std::string> shell_words(std::string_view text, std::string_view source);

}  // namespace terrace::translate
