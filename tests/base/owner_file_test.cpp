// The owner file as a lock: it has one holder at a time, and is taken over only from dead processes.
#include "terrace/base/owner_file.h"

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

TEST(OwnerFile, IsHeldByOneAtATime) {
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

TEST(OwnerFile, OfAKilledProcessIsTakenOver) {
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
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  const OwnerFile mark(path, "held");
  EXPECT_THAT(text_in(path), HasSubstr(" " + std::to_string(getpid()) + " "));
}

TEST(OwnerFile, OfAnotherMachineIsTakenOverWhenItsSignsOfLifeStop) {
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
  EXPECT_EQ(death_of_owner(path), "has left");
  {
    const OwnerFile mark(path, "held");
    EXPECT_EQ(death_of_owner(path), "");
  }
  const auto mark_of = [&](const char* text, time_t age) {
    std::ofstream(path) << text;
    const timespec when[2] = {{.tv_sec = time(nullptr) - age, .tv_nsec = 0},
                              {.tv_sec = time(nullptr) - age, .tv_nsec = 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), when, 0), 0);
  };
  mark_of("elsewhere 4242 99 another-kernel\n", 100);
  EXPECT_EQ(death_of_owner(path), "");
  mark_of("elsewhere 4242 99 another-kernel\n", 600);
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
