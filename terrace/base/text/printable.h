// Text that a terminal shows as it is, for messages that hold names of files, keys and other words of a user.
#pragma once

#include <string>
#include <string_view>

namespace terrace {

// The text with escapes in place of what a terminal would obey or cannot show: control characters other than a newline
// as \x1b (\t and \r for tab and carriage return), those that UTF-8 writes in two bytes as \u009b, and bytes that are
// not UTF-8 as \xff. Everything else stays, so that a text without such bytes is returned unchanged.
std::string printable(std::string_view text);

}  // namespace terrace
