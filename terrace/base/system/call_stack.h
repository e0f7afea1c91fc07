// The functions that a thread was in, by their names.
#pragma once

#include <array>
#include <exception>
#include <string>
#include <vector>

namespace terrace {

// Return addresses, innermost first.
struct CallStack {
  static constexpr int most_frames = 64;
  std::array<void*, most_frames> frames = {};
  int count = 0;

  // The stack of the calling thread. Once this has been called in a process, it may be called in a signal handler.
  static CallStack here();
};

// "function(arguments) + 0x1f (library.so)" for each frame. Functions of the program are found in the symbols of its
// file, if it was not stripped, others where their library exports them.
std::vector<std::string> names_of(const CallStack& stack);

// From now on, notes where exceptions are thrown, which costs some microseconds for each; or no more.
void note_thrown_exceptions(bool on);
// Where the exception was thrown, if that was noted and fewer than 64 exceptions were thrown since.
CallStack stack_of(const std::exception& error);

}  // namespace terrace
