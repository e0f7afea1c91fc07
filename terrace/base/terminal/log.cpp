// Sets up the one logger of the process.
#include "terrace/base/terminal/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <string>
#include <utility>

#include "terrace/base/terminal/terminal_line.h"
#include "terrace/base/text/printable.h"

namespace terrace {
namespace {

// Standard error with colours, above the line in which progress is drawn.
class LogSink : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    // Names of files and words of a user stand in messages, and a terminal must not obey them.
    const std::string text = printable({message.payload.data(), message.payload.size()});
    spdlog::details::log_msg shown = message;
    shown.payload = text;
    write_above_terminal_line([&] { lines_.log(shown); });
  }
  void flush() override { lines_.flush(); }
  void set_pattern(const std::string& pattern) override { lines_.set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    lines_.set_formatter(std::move(formatter));
  }

 private:
  spdlog::sinks::stderr_color_sink_mt lines_;
};

}  // namespace

void start_log() {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("terrace", std::make_shared<LogSink>()));
  spdlog::set_pattern("[%H:%M:%S] %^%v%$");
}

void log_only_warnings() { spdlog::set_level(spdlog::level::warn); }

}  // namespace terrace
