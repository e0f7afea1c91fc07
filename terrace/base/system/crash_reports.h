// Notices how this process crashes, by a fatal signal or by an exception, so that what is known of it can be written
// into one folder before the process ends.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace terrace {

struct Crash {
  std::filesystem::path folder;
  std::string reason;              // "SIGSEGV (address 0x10)", or the text of the exception
  std::string thread = {};         // the name of the thread that failed; "" where it has none
  std::vector<std::string> stack;  // innermost first; of an exception: where it was thrown. Empty where it is not known
};

// While it exists, SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT are reported before they end the process. One at a time
// in a process. A thread of its own calls `write`, so that the thread that failed, which may hold locks, only waits: at
// most five seconds. A stack that is used up leaves no report.
class CrashReports {
 public:
  // `folder` is that of the crash, which `write` creates; it is called for the first crash only.
  CrashReports(std::filesystem::path folder, std::function<void(const Crash&)> write);
  ~CrashReports();
  CrashReports(const CrashReports&) = delete;
  CrashReports& operator=(const CrashReports&) = delete;

  // From now on crash_folder() is the folder of this object.
  void arm();
  bool armed() const;
  // Reports an exception that ends the run. `thread` is the name of the thread that threw it, if known.
  void report(const std::exception& error, const std::string& thread = "");
};

// The folder in which other parts of the program write what they know when a run fails; "" unless reports are armed.
std::filesystem::path crash_folder();

// Names the calling thread in later reports, such as "rank 3", until it ends.
void name_thread_of_crashes(const std::string& name);

// While it exists, `write` is called with the folder of a crash by a signal.
class AtCrash {
 public:
  explicit AtCrash(std::function<void(const std::filesystem::path& folder)> write);
  ~AtCrash();
  AtCrash(const AtCrash&) = delete;
  AtCrash& operator=(const AtCrash&) = delete;

 private:
  int number_;
};

}  // namespace terrace
