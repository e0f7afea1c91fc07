// Fatal signals and exceptions leave a report with the stack before they end the process.
#include "terrace/base/system/crash_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "terrace/base/files/file.h"
#include "terrace/base/system/call_stack.h"
#include "tests/scratch_folder.h"

namespace terrace {

// Not in an unnamed namespace, so that its name stays in the program's table of symbols.
__attribute__((noinline)) void function_that_fails(int signal) {
  ::raise(signal);
  std::abort();
}

__attribute__((noinline)) void function_that_throws() { throw std::runtime_error("thrown here"); }

namespace {

using testing::HasSubstr;

// The sanitizers handle fatal signals and throws themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

void write_report(const Crash& crash) {
  std::string text = crash.reason + "\n" + crash.thread + "\n";
  for (const std::string& frame : crash.stack) text += frame + "\n";
  write_text_atomically(crash.folder / "report", text);
}

TEST(CrashReports, FatalSignalsAreReportedWithTheStackAndEndTheProcess) {
  if (sanitized) GTEST_SKIP() << "the sanitizer handles what ends the process";
  for (const auto& [signal, name] : {std::pair(SIGSEGV, "SIGSEGV"), std::pair(SIGFPE, "SIGFPE"),
                                     std::pair(SIGBUS, "SIGBUS"), std::pair(SIGABRT, "SIGABRT")}) {
    const ScratchFolder folder;
    const auto crash = [&, signal = signal] {
      const CrashReports reports(folder.path(), write_report);
      const AtCrash more([](const std::filesystem::path& at) { write_text_atomically(at / "more", "calls"); });
      std::thread([&] {
        name_thread_of_crashes("rank 3");
        function_that_fails(signal);
      }).join();
    };
    EXPECT_EXIT(crash(), testing::KilledBySignal(signal), "");
    const std::string report = read_text(folder / "report");
    EXPECT_TRUE(report.starts_with(name)) << report;
    EXPECT_THAT(report, HasSubstr("\nrank 3\n"));
    EXPECT_THAT(report, HasSubstr("terrace::function_that_fails(int)"));
    EXPECT_EQ(read_text(folder / "more"), "calls");
  }
}

TEST(CrashReports, ReportThatCannotBeWrittenDoesNotKeepTheProcess) {
  if (sanitized) GTEST_SKIP() << "the sanitizer handles what ends the process";
  const ScratchFolder folder;
  const auto crash = [&] {
    const CrashReports reports(folder.path(), [](const Crash&) { throw std::runtime_error("no disk"); });
    function_that_fails(SIGSEGV);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV), "");
  EXPECT_FALSE(std::filesystem::exists(folder / "report"));
}

TEST(CrashReports, ExceptionIsReportedOnceWithTheStackOfItsThrow) {
  if (sanitized) GTEST_SKIP() << "the sanitizer handles what ends the process";
  const ScratchFolder folder;
  CrashReports reports(folder.path(), write_report);
  EXPECT_EQ(crash_folder(), "");
  reports.arm();
  EXPECT_EQ(crash_folder(), folder.path());
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      function_that_throws();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    reports.report(error, "rank 1");
    reports.report(std::runtime_error("another one"));
  }
  const std::string report = read_text(folder / "report");
  EXPECT_TRUE(report.starts_with("thrown here\nrank 1\n")) << report;
  EXPECT_THAT(report, HasSubstr("terrace::function_that_throws()"));
}

TEST(CallStack, ExceptionsAreNotedOnlyWhereThatIsAskedFor) {
  try {
    function_that_throws();
  } catch (const std::exception& error) {
    EXPECT_EQ(stack_of(error).count, 0);
  }
}

}  // namespace
}  // namespace terrace
