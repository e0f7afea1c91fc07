// The line at the bottom of a terminal in which progress is drawn. Log lines are written above it.
#pragma once

#include <functional>
#include <string>

namespace terrace {

// Draws the text on standard error, in place of what was drawn before. All three functions may be called by any thread.
void draw_terminal_line(const std::string& text);
void clear_terminal_line();

// Calls `write`, which writes whole lines to standard error, where the drawn line was; then draws that line again.
void write_above_terminal_line(const std::function<void()>& write);

}  // namespace terrace
