// Children: their ends, their limits, and that none is left, also of a program that was killed.
#include "terrace/base/system/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace {
namespace {

using How = ChildEnd::How;

class Children : public testing::Test {
 protected:
  ChildEnd shell(const std::string& command, const ChildLimits& limits = {}) {
    return children_.run({"sh", "-c", command}, folder_ / "log", limits);
  }
  std::string log() const { return read_text(folder_ / "log"); }
  // Waits until the file is there.
  std::string text_of(const std::string& name) const {
    while (!std::filesystem::exists(folder_ / name)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return read_text(folder_ / name);
  }

  ScratchFolder folder_;
  ChildProcesses children_;
};

// A process that has ended but that nobody has waited for counts as gone.
bool is_running(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return file >> number >> name >> state && state != "Z";
}

// Whether the process ends within a time that is enough on a busy machine.
bool ends(pid_t pid) {
  for (int i = 0; i < 3000 && is_running(pid); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return !is_running(pid);
}

TEST_F(Children, EndWithTheirExitCodeOrSignal) {
  const ChildEnd done = shell("echo out; echo err >&2");
  EXPECT_TRUE(done.succeeded());
  EXPECT_EQ(log(), "out\nerr\n");
  const ChildEnd failed = shell("exit 7");
  EXPECT_EQ(failed.how, How::exited);
  EXPECT_EQ(failed.code, 7);
  const ChildEnd killed = shell("kill -9 $$");
  EXPECT_EQ(killed.how, How::signalled);
  EXPECT_EQ(killed.code, SIGKILL);
}

TEST_F(Children, EmptyInputAndNoInheritedFiles) {
  EXPECT_TRUE(shell("cat; ls /proc/$$/fd").succeeded());
  EXPECT_EQ(log(), "0\n1\n2\n");
}

TEST_F(Children, ThrowsForAMissingProgram) {
  EXPECT_THROW(children_.run({"no_such_program_here"}, folder_ / "log"), std::system_error);
}

TEST_F(Children, EndAtTheLimitOfTimeWithAllTheirProcesses) {
  const ChildEnd end = shell("sleep 100 & echo $! > " + (folder_ / "below").string() + "; sleep 100", {.seconds = 0.3});
  EXPECT_EQ(end.how, How::over_time);
  EXPECT_GE(end.seconds, 0.3);
  EXPECT_TRUE(ends(std::stoi(text_of("below"))));
}

TEST_F(Children, KillsAChildThatIgnoresTerm) {
  const ChildEnd end = shell("trap '' TERM; while true; do sleep 0.1; done", {.seconds = 0.1});
  EXPECT_EQ(end.how, How::over_time);
  EXPECT_GE(end.seconds, 5);
}

TEST_F(Children, EndAtTheLimitOfMemory) {
  // A shell variable of 256 MB.
  const std::string grow = "x=a; for i in $(seq 28); do x=$x$x; done; sleep 100";
  const ChildEnd end = shell(grow, {.seconds = 60, .memory_bytes = 50'000'000});
  EXPECT_EQ(end.how, How::over_memory);
  EXPECT_GT(end.memory_bytes, 50'000'000);
}

TEST_F(Children, LeaveNoProcessBehind) {
  EXPECT_TRUE(shell("sleep 100 & echo $! > " + (folder_ / "left").string()).succeeded());
  EXPECT_TRUE(ends(std::stoi(text_of("left"))));
}

TEST_F(Children, EndWithAKilledProgram) {
  const pid_t program = ::fork();
  if (program == 0) {
    ChildProcesses children;
    children.run({"sh", "-c", "sleep 100 & echo $! > " + (folder_ / "below").string() + "; sleep 100"},
                 folder_ / "log");
    ::_exit(0);
  }
  while (!std::filesystem::exists(folder_ / "below") || read_text(folder_ / "below").empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const pid_t below = std::stoi(text_of("below"));
  EXPECT_TRUE(is_running(below));
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  EXPECT_TRUE(ends(below));
}

}  // namespace
}  // namespace terrace
