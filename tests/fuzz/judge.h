// Checks what every reader promises of any bytes: it reads them, or refuses them as the user's mistake with a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "terrace/base/error.h"

namespace terrace {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Whether `read` accepted. Any other exception than UserError leaves the fuzzer, which takes it for a crash.
template <typename Read>
bool reads_or_refuses(const Read& read) {
  try {
    read();
    return true;
  } catch (const UserError& error) {
    TERRACE_CHECK(*error.what() != '\0', "a refusal without a message");
    return false;
  }
}

}  // namespace terrace
