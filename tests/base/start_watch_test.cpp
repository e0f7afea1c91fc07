// Tests what a start says and how a request ends it, each in a process of its own, since a process has one watch.
#include "terrace/base/system/start_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "terrace/base/error.h"
#include "terrace/base/system/stop_request.h"
#include "terrace/base/terminal/log.h"

namespace terrace {
namespace {

using std::chrono::milliseconds;
using ::testing::ExitedWithCode;

constexpr int stopped = static_cast<int>(ExitCode::stopped);

void wait(int milliseconds_long) { std::this_thread::sleep_for(milliseconds(milliseconds_long)); }

// A death test forks, so the thread of the watch is the child's.
class StartWatch : public ::testing::Test {
 protected:
  StartWatch() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StartWatch, EndsAProcessThatLooksForNoRequest) {
  EXPECT_EXIT(
      {
        start_log();
        begin_start(milliseconds(200));
        const Activity activity("counting sheep");
        request_stop();
        wait(20'000);
        std::exit(9);
      },
      ExitedWithCode(stopped), "error: stopped on request while counting sheep");
}

TEST_F(StartWatch, SaysWhatTakesLong) {
  EXPECT_EXIT(
      {
        start_log();
        begin_start();
        const Activity outer("building");
        const Activity inner("counting sheep");
        wait(3000);
        std::exit(0);
      },
      ExitedWithCode(0), "counting sheep: .* so far");
}

TEST_F(StartWatch, LeavesRequestsToTheProgramOnceTheStartIsOver) {
  EXPECT_EXIT(
      {
        begin_start(milliseconds(100));
        end_start();
        request_stop();
        wait(600);
        end_if_stopped_at_start();
        std::exit(is_stopped_at_start() ? 8 : 0);
      },
      ExitedWithCode(0), "");
}

TEST_F(StartWatch, LongWorkOfAStartThrowsTheReason) {
  EXPECT_EXIT(
      {
        begin_start();
        const Activity activity("counting sheep");
        request_stop();
        try {
          end_if_stopped_at_start();
        } catch (const UserError& error) {
          std::fprintf(stderr, "%s", error.what());
          std::exit(static_cast<int>(error.code));
        }
        std::exit(9);
      },
      ExitedWithCode(stopped), "stopped on request while counting sheep");
}

TEST_F(StartWatch, CallsWhatIsToBeCalledBeforeItEndsTheProcess) {
  EXPECT_EXIT(
      {
        begin_start(milliseconds(100));
        const AtForcedEnd last(
            [](const std::string& reason) { std::fprintf(stderr, "last words: %s\n", reason.c_str()); });
        request_stop();
        wait(20'000);
        std::exit(9);
      },
      ExitedWithCode(stopped), "last words: stopped on request");
}

}  // namespace
}  // namespace terrace
