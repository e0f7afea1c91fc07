// A program that a supervisor starts, looks at now and then, and ends.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace terrace::supervise {

class Child {
 public:
  // `piped`: its standard input and output are pipes to this process; otherwise it has those of this process. Its
  // process group is its own, and it gets SIGTERM when the thread that makes it ends in any way, with its process at
  // the latest. Throws std::system_error. A program that cannot be executed ends with code 127.
  Child(const std::vector<std::string>& arguments, bool piped);
  Child(const Child&) = delete;
  // Ends it at once, if it runs.
  ~Child();

  // Its exit code, or 128 and the number of the signal that ended it; no value while it runs.
  std::optional<int> ended();
  // Sends a signal to the program, and not to its children.
  void send(int signal) const;
  // SIGTERM to the program and, after so many seconds, SIGKILL to its group; returns when it has ended.
  void end(double grace_seconds);

  // The output that it has written since the last call.
  std::string read_output() const;
  // Closes its input, by which it learns that this process needs it no more.
  void close_input();

 private:
  pid_t id_ = -1;
  int input_ = -1, output_ = -1;  // this process's ends of the pipes
  std::optional<int> code_;
};

}  // namespace terrace::supervise
