// A program that a supervisor starts, looks at now and then, and ends.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace terrace::supervise {

class Child {
 public:
  // Which of its standard streams are pipes to this process; it has the others of this process.
  enum class Pipes { none, input_and_output, errors };

  // Its process group is its own, and it gets SIGTERM when the thread that makes it ends in any way, with its process
  // at the latest. Throws std::system_error. A program that cannot be executed ends with code 127.
  Child(const std::vector<std::string>& arguments, Pipes pipes);
  Child(const Child&) = delete;
  // Ends it at once, if it runs.
  ~Child();

  // Its exit code, or 128 and the number of the signal that ended it; no value while it runs.
  std::optional<int> ended();
  // Sends a signal to the program, and not to its children.
  void send(int signal) const;
  // SIGTERM to the program and, after so many seconds, SIGKILL to its group; returns when it has ended. Its output is
  // kept for read_output(), so that a program which has much to say can end.
  void end(double grace_seconds);

  // The output or errors that it has written into a pipe since the last call.
  std::string read_output();
  // Closes its input, by which it learns that this process needs it no more.
  void close_input();

 private:
  void take_output();

  pid_t id_ = -1;
  int input_ = -1, output_ = -1;  // this process's ends of the pipes
  std::string unread_ = {};       // output that was taken out of the pipe and not returned yet
  std::optional<int> code_;
};

}  // namespace terrace::supervise
