// Keeps what a signal handler needs in globals, and writes the reports on a thread of their own.
#include "terrace/base/system/crash_reports.h"

#include <fmt/format.h>
#include <semaphore.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/system/call_stack.h"
#include "terrace/base/terminal/log.h"

namespace terrace {
namespace {

struct FatalSignal {
  int number;
  const char* name;
};
constexpr std::array<FatalSignal, 5> fatal_signals = {
    {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}, {SIGABRT, "SIGABRT"}}};
constexpr int most_seconds = 5;  // for which the thread that failed waits for its report

// The part that the signal handler uses; written by one thread that fails, and read by the one that reports.
struct Failure {
  std::atomic<bool> noticed = false, written = false, ends = false;
  std::atomic<pid_t> reporting_thread = 0;
  int signal = 0;
  const void* address = nullptr;
  pid_t thread = 0;
  CallStack stack;
  sem_t wake = {};
  std::array<struct sigaction, fatal_signals.size()> before = {};
};
Failure failure;

struct Reports {
  std::mutex mutex;
  std::filesystem::path folder;
  std::function<void(const Crash&)> write;
  std::atomic<bool> armed = false, reported = false;
  std::map<pid_t, std::string> threads;
  std::map<int, std::function<void(const std::filesystem::path&)>> at_crash;
  int next_number = 0;
  std::thread thread;
};

Reports& reports() {
  static Reports all;
  return all;
}

void on_fatal_signal(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  if (::gettid() != failure.reporting_thread && !failure.noticed.exchange(true)) {
    failure.signal = signal;
    failure.address = signal == SIGABRT ? nullptr : info->si_addr;
    failure.thread = ::gettid();
    failure.stack = CallStack::here();
    ::sem_post(&failure.wake);
    const timespec pause = {.tv_sec = 0, .tv_nsec = 10'000'000};
    for (int i = 0; i < 100 * most_seconds && !failure.written; ++i) ::nanosleep(&pause, nullptr);
  } else if (::gettid() != failure.reporting_thread) {
    ::sleep(most_seconds);  // another thread has failed first, and its report ends the process
  }
  for (size_t i = 0; i < fatal_signals.size(); ++i) {
    if (fatal_signals[i].number == signal) ::sigaction(signal, &failure.before[i], nullptr);
  }
  errno = saved;
  ::raise(signal);
}

std::string name_of(int signal) {
  for (const FatalSignal& one : fatal_signals) {
    if (one.number == signal) return one.name;
  }
  return fmt::format("signal {}", signal);
}

// Runs on the reporting thread, from which the failing thread's locks may keep it; then the handler gives up on it.
void report_signal() {
  Crash crash{.folder = reports().folder, .reason = name_of(failure.signal), .stack = names_of(failure.stack)};
  if (failure.address != nullptr) crash.reason += fmt::format(" (address {})", fmt::ptr(failure.address));
  std::map<int, std::function<void(const std::filesystem::path&)>> at_crash;
  {
    const std::lock_guard lock(reports().mutex);
    const auto named = reports().threads.find(failure.thread);
    if (named != reports().threads.end()) crash.thread = named->second;
    at_crash = reports().at_crash;
  }
  if (!reports().reported.exchange(true)) reports().write(crash);
  for (const auto& [number, write] : at_crash) write(crash.folder);
}

void wait_for_failure() {
  failure.reporting_thread = ::gettid();
  while (::sem_wait(&failure.wake) != 0) {
  }
  if (failure.ends) return;
  try {
    report_signal();
  } catch (const std::exception& error) {
    log_warning("the crash could not be reported: {}", error.what());
  }
  failure.written = true;
}

}  // namespace

CrashReports::CrashReports(std::filesystem::path folder, std::function<void(const Crash&)> write) {
  TERRACE_CHECK(!reports().thread.joinable(), "two crash reports at a time");
  reports().folder = std::move(folder);
  reports().write = std::move(write);
  reports().armed = reports().reported = false;
  failure.noticed = failure.written = failure.ends = false;
  CallStack::here();  // loads what it needs
  note_thrown_exceptions(true);
  ::sem_init(&failure.wake, 0, 0);
  reports().thread = std::thread(wait_for_failure);
  struct sigaction action = {};
  action.sa_sigaction = on_fatal_signal;
  action.sa_flags = SA_SIGINFO;
  for (size_t i = 0; i < fatal_signals.size(); ++i) {
    ::sigaction(fatal_signals[i].number, &action, &failure.before[i]);
  }
}

CrashReports::~CrashReports() {
  for (size_t i = 0; i < fatal_signals.size(); ++i) {
    ::sigaction(fatal_signals[i].number, &failure.before[i], nullptr);
  }
  failure.ends = true;
  ::sem_post(&failure.wake);
  reports().thread.join();
  ::sem_destroy(&failure.wake);
  note_thrown_exceptions(false);
  reports().armed = false;
  const std::lock_guard lock(reports().mutex);
  reports().write = nullptr;
}

void CrashReports::arm() { reports().armed = true; }

bool CrashReports::armed() const { return reports().armed; }

void CrashReports::report(const std::exception& error, const std::string& thread) {
  if (reports().reported.exchange(true)) return;
  try {
    reports().write(
        {.folder = reports().folder, .reason = error.what(), .thread = thread, .stack = names_of(stack_of(error))});
  } catch (const std::exception& problem) {
    log_warning("the crash could not be reported: {}", problem.what());
  }
}

std::filesystem::path crash_folder() { return reports().armed ? reports().folder : std::filesystem::path(); }

void name_thread_of_crashes(const std::string& name) {
  const std::lock_guard lock(reports().mutex);
  reports().threads[::gettid()] = name;
}

AtCrash::AtCrash(std::function<void(const std::filesystem::path& folder)> write) {
  const std::lock_guard lock(reports().mutex);
  number_ = reports().next_number++;
  reports().at_crash[number_] = std::move(write);
}

AtCrash::~AtCrash() {
  const std::lock_guard lock(reports().mutex);
  reports().at_crash.erase(number_);
}

}  // namespace terrace
