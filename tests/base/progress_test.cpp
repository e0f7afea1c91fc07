// The estimate of the time left, the bar on a terminal and log lines elsewhere.
#include "terrace/base/terminal/progress.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "terrace/base/terminal/log.h"

namespace terrace {
namespace {

using std::chrono::milliseconds;

// A clock that goes on by hand.
class HandSetClock {
 public:
  void go_on(milliseconds time) { *now_ += time; }
  std::function<Progress::Clock::time_point()> reader() const {
    return [now = now_] { return *now; };
  }

 private:
  std::shared_ptr<Progress::Clock::time_point> now_ = std::make_shared<Progress::Clock::time_point>();
};

// Replaces standard error by a pseudo-terminal as long as the object lives.
class Terminal {
 public:
  Terminal() : saved_(::dup(STDERR_FILENO)) {
    int slave = -1;
    opened_ = ::openpty(&master_, &slave, nullptr, nullptr, nullptr) == 0;
    ::dup2(slave, STDERR_FILENO);
    ::close(slave);
  }
  ~Terminal() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(master_);
  }
  bool opened() const { return opened_; }

  // The output since the last call.
  std::string drawn() const {
    std::string text;
    pollfd ready{.fd = master_, .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, 50) > 0) {
      char buffer[4096];
      const ssize_t bytes = ::read(master_, buffer, sizeof buffer);
      if (bytes <= 0) break;
      text.append(buffer, static_cast<size_t>(bytes));
    }
    return text;
  }

 private:
  int saved_, master_ = -1;
  bool opened_ = false;
};

// Half of the remaining work is done, so the time left equals the time that has passed.
TEST(Progress, EstimatesFromTheMeanSpeedSinceTheStart) {
  HandSetClock clock;
  const Progress progress("steps", 100, 50, 30, clock.reader());
  clock.go_on(milliseconds(1500));
  EXPECT_DOUBLE_EQ(progress.seconds_left(75), 1.5);
  EXPECT_EQ(progress.seconds_left(100), 0);
  EXPECT_EQ(progress.seconds_left(120), 0);
}

TEST(Progress, NoEstimateBeforeAnyWorkOrWithoutATotal) {
  EXPECT_LT(Progress("steps", 100, 50).seconds_left(50), 0);
  EXPECT_LT(Progress("steps", 0).seconds_left(10), 0);
}

TEST(Progress, WritesSparseLinesWhereThereIsNoTerminal) {
  testing::internal::CaptureStderr();
  start_log();
  {
    HandSetClock clock;
    Progress progress("steps", 200, 0, /*line_seconds=*/1.5, clock.reader());
    clock.go_on(milliseconds(1900));
    progress.update(10);  // nothing in the first two seconds
    clock.go_on(milliseconds(200));
    progress.update(50, "loss 3.21");
    clock.go_on(milliseconds(1400));
    progress.update(60, "loss 3.20");  // too soon after the last line
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("steps: 25%, "), std::string::npos) << text;
  EXPECT_NE(text.find(" s left, loss 3.21\n"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(Progress, DrawsABarOnATerminalAndRemovesIt) {
  const Terminal terminal;
  ASSERT_TRUE(terminal.opened());
  HandSetClock clock;
  Progress progress("steps", 100, 0, 30, clock.reader());
  progress.update(10);
  EXPECT_EQ(terminal.drawn(), "");
  clock.go_on(milliseconds(2100));
  progress.update(25, "loss 3.21");
  const std::string bar = terminal.drawn();
  EXPECT_NE(bar.find("steps [#######.....................]  25%"), std::string::npos) << bar;
  EXPECT_NE(bar.find("left  loss 3.21"), std::string::npos) << bar;
  clock.go_on(milliseconds(110));
  progress.update(130);  // more than the total
  const std::string full = terminal.drawn();
  EXPECT_NE(full.find("steps [############################] 100%"), std::string::npos);
  EXPECT_EQ(full.find("left"), std::string::npos) << full;
  progress.clear();
  EXPECT_EQ(terminal.drawn(), "\r\033[K");
  progress.clear();
  EXPECT_EQ(terminal.drawn(), "");
}

TEST(Progress, LogLinesAreWrittenAboveTheBar) {
  const Terminal terminal;
  ASSERT_TRUE(terminal.opened());
  start_log();
  HandSetClock clock;
  Progress progress("steps", 100, 0, 30, clock.reader());
  log_info("begins");
  EXPECT_EQ(terminal.drawn().find("\033[K"), std::string::npos);  // there is no bar yet
  clock.go_on(milliseconds(2100));
  progress.update(25, "loss 3.21");
  const std::string bar = terminal.drawn().substr(std::string("\r\033[K").size());
  std::thread([] { log_info("checkpoint runs/a"); }).join();
  const std::string text = terminal.drawn();
  EXPECT_TRUE(text.starts_with("\r\033[K[")) << text;
  EXPECT_NE(text.find("checkpoint runs/a"), std::string::npos) << text;  // in colour
  EXPECT_TRUE(text.ends_with("\r\n" + bar)) << text;
  progress.clear();
  EXPECT_EQ(terminal.drawn(), "\r\033[K");
}

}  // namespace
}  // namespace terrace
