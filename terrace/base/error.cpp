// Prints the message of a broken invariant and aborts.
#include "terrace/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace terrace {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s: %s\n", file, line, condition, message.c_str());
  std::abort();
}

}  // namespace terrace
