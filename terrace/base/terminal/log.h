// Log lines go to standard error; results go to standard output.
#pragma once

#include <spdlog/spdlog.h>

namespace terrace {

template <typename... Args>
void log_info(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::info(format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_warning(spdlog::format_string_t<Args...> format, Args&&... args) {
  spdlog::warn(format, std::forward<Args>(args)...);
}

// From here on logs only warnings. All processes of a run but one call it, so that messages appear once.
void log_only_warnings();

// Sends the default logger to standard error with a short time stamp; called once by main.
void start_log();

}  // namespace terrace
