// Children of a supervisor, and what it concludes from the signs of a node's keeper.
#include "terrace/supervise/watched_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "terrace/base/files/file.h"
#include "terrace/base/files/memory_folder.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/run_process.h"
#include "terrace/supervise/keeper.h"
#include "terrace/supervise/outage.h"
#include "tests/scratch_folder.h"

namespace terrace::supervise {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<std::string> shell(const std::string& line) { return {"/bin/sh", "-c", line}; }

// Whether the condition holds within ten seconds.
bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

int code_of(const std::string& line) {
  Child child(shell(line), Child::Pipes::none);
  EXPECT_TRUE(soon([&] { return child.ended().has_value(); }));
  return child.ended().value_or(-1);
}

TEST(Child, EndsWithTheCodeOfTheProgramOrItsSignal) {
  EXPECT_EQ(code_of("exit 3"), 3);
  EXPECT_EQ(code_of("kill -KILL $$"), 137);
  Child missing({"/nothing/there"}, Child::Pipes::none);
  EXPECT_TRUE(soon([&] { return missing.ended() == 127; }));
}

TEST(Child, IsEndedWithItsOwnChildrenEvenIfItRefuses) {
  Child child(shell("trap '' TERM; echo $$; sleep 600 & while :; do sleep 0.1; done"), Child::Pipes::input_and_output);
  std::string output;
  ASSERT_TRUE(soon([&] { return (output += child.read_output()).ends_with("\n"); }));
  child.end(0.3);
  EXPECT_EQ(child.ended(), 128 + SIGKILL);
  EXPECT_TRUE(soon([&] { return ::kill(-std::stoi(output), 0) != 0; }));  // the whole group
}

TEST(Child, SeesTheEndOfItsInput) {
  Child child(shell("cat; exit 9"), Child::Pipes::input_and_output);
  EXPECT_FALSE(child.ended());
  child.close_input();
  EXPECT_TRUE(soon([&] { return child.ended() == 9; }));
}

TEST(Child, EndsThoughItsErrorsFillThePipeMeanwhile) {
  // A pipe holds 64 KiB.
  Child child(shell("trap 'head -c 200000 /dev/zero >&2; exit 0' TERM; echo begun >&2; while :; do sleep 0.05; done"),
              Child::Pipes::errors);
  std::string errors;
  ASSERT_TRUE(soon([&] { return (errors += child.read_output()).ends_with("\n"); }));
  child.end(60);
  EXPECT_EQ(child.ended(), 0);
  EXPECT_EQ((errors + child.read_output()).size(), 200'006u);
}

TEST(WatchedNode, LivesWhileItsKeeperGivesSigns) {
  WatchedNode node("a", shell("while :; do echo; sleep 0.05; done"), 5, 5);
  const auto began = WatchedNode::Clock::now();
  EXPECT_TRUE(soon([&] {
    node.look();
    return node.last_sign() > began + std::chrono::milliseconds(200);
  }));
  EXPECT_FALSE(node.is_lost());
}

TEST(WatchedNode, IsLostWhenTheKeeperEndsOrFallsSilentOrDoesNotBegin) {
  WatchedNode ends("a", shell("echo; exit 7"), 60, 60);
  WatchedNode silent("b", shell("echo; sleep 600"), 0.4, 60);
  WatchedNode never("c", shell("sleep 600"), 60, 0.4);
  for (WatchedNode* node : {&ends, &silent, &never}) {
    EXPECT_TRUE(soon([&] {
      node->look();
      return node->is_lost();
    }));
  }
  EXPECT_EQ(ends.why_lost(), "its keeper ended with code 7");
  EXPECT_EQ(silent.why_lost(), "its keeper has given no sign for 400 ms");
  EXPECT_EQ(never.why_lost(), "its keeper has given no sign for 400 ms");
}

TEST(KeepNode, RemovesTheCopiesOfItsHostWhenItsInputEnds) {
  const ScratchFolder folder;
  const fs::path copies = memory_of(folder / "memory", folder / "run");
  for (const std::string& node : std::vector<std::string>{host_name(), host_name() + "@1", "another"}) {
    fs::create_directories(copies / node / "start");
    write_text_atomically(copies / node / "start/file", "x");
  }
  int input[2];
  ASSERT_EQ(::pipe(input), 0);
  const int before = ::dup(STDIN_FILENO);
  ASSERT_GE(::dup2(input[0], STDIN_FILENO), 0);
  ::close(input[0]);
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(fs::exists(copies / host_name()));
    ::close(input[1]);
  });
  keep_node(folder / "memory", folder / "run");
  ends.join();
  ::dup2(before, STDIN_FILENO);
  EXPECT_FALSE(fs::exists(copies / host_name()));
  EXPECT_FALSE(fs::exists(copies / (host_name() + "@1")));
  EXPECT_TRUE(fs::exists(copies / "another/start/file"));
}

TEST(FirstStep, IsTheOneBehindTheStepFromWhichTheRanksBegan) {
  const ScratchFolder folder;
  const auto write_steps = [&](int64_t after, int64_t last) {
    observe::MetricsWriter metrics(folder.path(), after);
    for (int64_t step = after + 1; step <= last; ++step) metrics.write(observe::StepMetrics{.step = step, .loss = 3.5});
  };
  write_steps(0, 37);  // of the ranks that failed
  observe::RunProcess record = observe::this_run_process(2);
  record.identity.process_id = 1;
  observe::write_run_process(folder.path(), record);
  FirstStep first(folder.path());
  EXPECT_FALSE(first.has_begun());
  record.identity.process_id = 2;
  record.step = 30;
  observe::write_run_process(folder.path(), record);
  EXPECT_TRUE(first.has_begun());
  EXPECT_EQ(first.from_step(), 30);
  EXPECT_FALSE(first.is_made());  // step 37 was made before
  write_steps(30, 30);
  EXPECT_FALSE(first.is_made());
  write_steps(30, 31);
  EXPECT_TRUE(first.is_made());
}

TEST(Outage, NamesEachPartOfItsTime) {
  const Outage::Clock::time_point zero{};
  const auto at = [&](int64_t milliseconds) { return zero + std::chrono::milliseconds(milliseconds); };
  const Outage outage{.what = "the loss of b",
                      .last_sign = at(0),
                      .noticed = at(500),
                      .ended = at(1500),
                      .chosen = at(1600),
                      .begun = at(4600),
                      .from_step = 30};
  EXPECT_EQ(
      outage.text(at(6600)),
      "the loss of b: 6.60 s from the last sign of life to step 31: 500 ms until it was noticed, 1.00 s to end the "
      "ranks, 100 ms to choose nodes, 3.00 s to start the ranks, 2.00 s to read the state of step 30 and make the next "
      "one");
}

}  // namespace
}  // namespace terrace::supervise
