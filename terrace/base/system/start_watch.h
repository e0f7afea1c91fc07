// Watches the start of a command: what takes more than two seconds is said in the log, and a request to stop ends the
// process although nothing looks for it yet.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace terrace {

// From now on the start is watched by a thread of its own, until end_start(). What takes longer than two seconds is
// said in the log, and again every half minute. Where stop_requested() (stop_request.h) becomes true and the start has
// not ended `grace` later, the process ends with ExitCode::stopped. Once in a process; later calls do nothing.
void begin_start(std::chrono::milliseconds grace = std::chrono::milliseconds(2000));
// From now on the program looks for requests itself. Does nothing where no start is watched.
void end_start();

// Whether a stop is requested while a start is watched: then nothing else will end what takes long.
bool is_stopped_at_start();
// Throws UserError with ExitCode::stopped if is_stopped_at_start().
void end_if_stopped_at_start();

// Says what the process does now, such as "counting edges of data/molecules", until the object is destroyed or another
// one is made meanwhile. An activity is cheap, and any thread may make one.
class Activity {
 public:
  explicit Activity(std::string what);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // Another part of the program says what it does, so that the watch need not.
  void is_said();

 private:
  int number_;
};

// While it exists, `end` is called with the reason before the watch ends the process.
class AtForcedEnd {
 public:
  explicit AtForcedEnd(std::function<void(const std::string& reason)> end);
  ~AtForcedEnd();
  AtForcedEnd(const AtForcedEnd&) = delete;
  AtForcedEnd& operator=(const AtForcedEnd&) = delete;
};

}  // namespace terrace
