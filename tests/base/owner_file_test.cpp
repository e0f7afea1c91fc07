// The owner file as a lock: it has one holder at a time, and is taken over only from dead processes.
#include "terrace/base/files/owner_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>

#include "terrace/base/error.h"
#include "tests/scratch_folder.h"

namespace terrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OwnerFile, RefusesASecondOwnerAndNamesTheFirst) {
  const ScratchFolder folder;
  const auto path = folder / "run.owner";
  for (int round = 0; round < 2; ++round) {
    const OwnerFile mark(path, "held");
    EXPECT_THAT([&] { OwnerFile(path, "held"); },
                testing::ThrowsMessage<UserError>(
                    AllOf(HasSubstr("held"), HasSubstr("process " + std::to_string(getpid()) + " on "))));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(OwnerFile, TakesOverFromAKilledProcess) {
  const ScratchFolder folder;
  const auto path = folder / "run.owner";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const OwnerFile mark(path, "held");
    const ssize_t written = write(ready[1], "x", 1);
    while (written == 1) pause();
    _exit(1);
  }
  char letter = 0;
  ASSERT_EQ(read(ready[0], &letter, 1), 1);
  EXPECT_THROW(OwnerFile(path, "held"), UserError);
  kill(child, SIGKILL);
  siginfo_t ended;
  // The child has ended, but nobody has asked how.
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(death_of_owner(path), "has died");
  waitpid(child, nullptr, 0);
  EXPECT_EQ(death_of_owner(path), "has died");
  EXPECT_TRUE(std::filesystem::exists(path));
  const OwnerFile mark(path, "held");
  EXPECT_THAT(text_in(path), HasSubstr(" " + std::to_string(getpid()) + " "));
}

TEST(OwnerFile, TakesOverFromAnotherMachineWithoutSignsOfLife) {
  const ScratchFolder folder;
  const auto path = folder / "run.owner";
  for (const char* text : {"elsewhere 4242 99 another-kernel\n", ""}) {
    std::ofstream(path) << text;
    EXPECT_THROW(OwnerFile(path, "held"), UserError);
    const timespec long_ago[2] = {{.tv_sec = time(nullptr) - 600, .tv_nsec = 0},
                                  {.tv_sec = time(nullptr) - 600, .tv_nsec = 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
    const OwnerFile mark(path, "held");
    EXPECT_THAT(text_in(path), HasSubstr(" " + std::to_string(getpid()) + " "));
  }
}

TEST(OwnerFile, SaysWhetherItsOwnerIsDead) {
  const ScratchFolder folder;
  const auto path = folder / "run.owner";
  const auto set_age = [&](time_t age) {
    const timespec when = {.tv_sec = time(nullptr) - age, .tv_nsec = 0};
    const timespec times[2] = {when, when};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  };
  EXPECT_EQ(death_of_owner(path), "has left");
  {
    const OwnerFile mark(path, "held");
    EXPECT_EQ(death_of_owner(path), "");
    set_age(600);
    EXPECT_THAT(death_of_owner(path), HasSubstr("has shown no heartbeat for ")) << "it may be suspended";
    EXPECT_THROW(OwnerFile(path, "held"), UserError) << "but it keeps its lock";
  }
  std::ofstream(path) << "elsewhere 4242 99 another-kernel\n";
  set_age(100);
  EXPECT_EQ(death_of_owner(path), "");
  set_age(600);
  EXPECT_THAT(death_of_owner(path), HasSubstr("has shown no heartbeat for "));
}

// A process of another host may have the same id and write beside the same file.
TEST(OwnerFile, LeavesFilesAloneThatAreNamedByProcessIdOnly) {
  const ScratchFolder folder;
  const auto path = folder / "run.owner";
  for (const char* end : {"now", "dead"}) {
    std::ofstream(path.string() + "." + std::to_string(getpid()) + "." + end) << "of another host";
  }
  std::ofstream(path) << "elsewhere 4242 99 another-kernel\n";
  const timespec long_ago[2] = {{.tv_sec = time(nullptr) - 600, .tv_nsec = 0},
                                {.tv_sec = time(nullptr) - 600, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
  { const OwnerFile mark(path, "held"); }
  for (const char* end : {"now", "dead"}) {
    EXPECT_EQ(text_in(path.string() + "." + std::to_string(getpid()) + "." + end), "of another host");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

}  // namespace
}  // namespace terrace
