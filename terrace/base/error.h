// The two kinds of error: a user's mistake, whose message says how to correct it, and a broken invariant, which aborts.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace terrace {

// The exit codes of the binary; scripts rely on them.
enum class ExitCode : int { done = 0, failure = 1, bad_input = 2, infeasible = 3, stopped = 4, peer_failed = 5 };

// An error that the user can correct. The message holds the numbers and a valid alternative.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message, ExitCode code = ExitCode::bad_input)
      : std::runtime_error(message), code(code) {}

  template <typename... Args>
  static UserError of(fmt::format_string<Args...> format, Args&&... args) {
    return UserError(fmt::format(format, std::forward<Args>(args)...));
  }

  ExitCode code;
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace terrace

// Aborts with the message when the condition, an invariant of the program, does not hold.
#define TERRACE_CHECK(condition, ...)                                                    \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      ::terrace::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)
