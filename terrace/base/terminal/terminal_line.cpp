// Keeps the drawn text, since standard error has only one last line, whoever draws in it.
#include "terrace/base/terminal/terminal_line.h"

#include <cstdio>
#include <mutex>

#include "terrace/base/text/printable.h"

namespace terrace {
namespace {

std::mutex line_mutex;
std::string drawn_line;

void print_to_terminal(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

constexpr const char* erased = "\r\033[K";

}  // namespace

void draw_terminal_line(const std::string& text) {
  const std::scoped_lock lock(line_mutex);
  drawn_line = printable(text);
  print_to_terminal(erased + drawn_line);
}

void clear_terminal_line() {
  const std::scoped_lock lock(line_mutex);
  if (drawn_line.empty()) return;
  drawn_line.clear();
  print_to_terminal(erased);
}

void write_above_terminal_line(const std::function<void()>& write) {
  const std::scoped_lock lock(line_mutex);
  if (drawn_line.empty()) return write();
  print_to_terminal(erased);
  write();
  print_to_terminal(drawn_line);
}

}  // namespace terrace
