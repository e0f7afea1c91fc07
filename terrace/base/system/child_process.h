// Runs programs as children, each in a process group of its own with limits on time and memory. No child outlives the
// program that started it, however that program ends.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace terrace {

// The program is missing or must not be executed.
class CannotStart : public std::system_error {
 public:
  using std::system_error::system_error;
};

// 0: no limit. The memory is what all processes of the group hold resident together; pages that several of them share
// count once, as far as the kernel tells.
struct ChildLimits {
  double seconds = 0;
  int64_t memory_bytes = 0;
  double grace_seconds = 5;  // from SIGTERM to SIGKILL
};

struct ChildEnd {
  enum class How { exited, signalled, over_time, over_memory, ended };

  How how = How::exited;
  int code = 0;              // the exit code, or the number of the signal
  double seconds = 0;        // from its start
  int64_t memory_bytes = 0;  // the most that was seen, every tenth of a second

  bool succeeded() const { return how == How::exited && code == 0; }
};

// The last lines of a child's output, at most `most` characters of them; "" where there is none.
std::string end_of_output(const std::filesystem::path& output, size_t most = 400);

class ChildProcesses {
 public:
  // Starts a process that waits for the end of this one, to end the children that are left then. Make it before other
  // threads are started. Throws std::system_error.
  ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ~ChildProcesses();

  // Starts the program, found along PATH, and waits for its end; its output and errors are appended to the file. A
  // child that breaks a limit gets SIGTERM and, after the grace, SIGKILL; for memory SIGKILL at once. Processes of its
  // group that are left when it ends are killed. May be called from several threads at a time. Throws CannotStart.
  ChildEnd run(const std::vector<std::string>& arguments, const std::filesystem::path& output,
               const ChildLimits& limits = {});
  // Ends all children as if they had broken a limit on time, also those that begin later.
  void end_all() { ends_all_ = true; }

 private:
  void tell_watcher(pid_t group) const;

  int pipe_ = -1;  // to the watcher: a group that begins, or the negative number of one that has ended
  pid_t watcher_ = -1;
  std::atomic<bool> ends_all_ = false;
};

}  // namespace terrace
