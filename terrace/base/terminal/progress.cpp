// Draws the bar and writes the log lines.
#include "terrace/base/terminal/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/terminal_line.h"
#include "terrace/base/text/units.h"

namespace terrace {

double Progress::seconds_since(Clock::time_point when) const {
  return std::chrono::duration<double>(now_() - when).count();
}

Progress::Progress(std::string title, uint64_t total, uint64_t start, double line_seconds,
                   std::function<Clock::time_point()> now)
    : title_(std::move(title)),
      activity_(title_),
      total_(total),
      start_(start),
      line_seconds_(line_seconds),
      now_(std::move(now)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      began_(now_()),
      shown_(began_) {}

Progress::~Progress() { clear(); }

double Progress::seconds_left(uint64_t done) const {
  if (done <= start_ || total_ == 0) return -1;
  return seconds_since(began_) * static_cast<double>(total_ - std::min(done, total_)) /
         static_cast<double>(done - start_);
}

void Progress::update(uint64_t done, const std::string& detail) {
  if (seconds_since(began_) < 2 || seconds_since(shown_) < (terminal_ ? 0.1 : line_seconds_)) return;
  shown_ = now_();
  activity_.is_said();
  const double left = seconds_left(done);
  const double share = total_ == 0 ? 0 : static_cast<double>(std::min(done, total_)) / static_cast<double>(total_);
  const std::string left_text = left <= 0 ? "" : fmt::format(", {} left", format_seconds(left));
  if (!terminal_) {
    log_info("{}: {:.0f}%{}{}{}", title_, 100 * share, left_text, detail.empty() ? "" : ", ", detail);
    return;
  }
  constexpr int width = 28;
  const int filled = static_cast<int>(share * width);
  draw_terminal_line(fmt::format("{} [{}{}] {:3.0f}%{}  {}", title_, std::string(filled, '#'),
                                 std::string(width - filled, '.'), 100 * share, left_text, detail));
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  clear_terminal_line();
  drawn_ = false;
}

}  // namespace terrace
