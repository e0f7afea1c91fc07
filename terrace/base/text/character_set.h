// The character set of the terminal, as the environment names it.
#pragma once

namespace terrace {

// Whether the locale's characters are UTF-8: the first of LC_ALL, LC_CTYPE and LANG that is set and not empty names it,
// as in C.UTF-8 or de_DE.utf8 (POSIX, Environment Variables, 8.2). Without any it is the C locale, which has ASCII
// alone.
bool locale_is_utf8();

}  // namespace terrace
