// Sets up the one logger of the process.
#include "terrace/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace terrace {

void start_log() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("terrace"));
  spdlog::set_pattern("[%H:%M:%S] %^%v%$");
}

void log_only_warnings() { spdlog::set_level(spdlog::level::warn); }

}  // namespace terrace
