// Tests [start] of machines and the limits of their jobs.
#include <gtest/gtest.h>

#include "terrace/machine/time_limit.h"
#include "tests/machine/machine_cases.h"

namespace terrace::machine {
namespace {

std::string with_start(const std::string& lines) { return valid_toml + "[start]\n" + lines; }

TEST(MachineStart, IsReadAndWrittenWithEveryFigure) {
  const Machine machine =
      parse(with_start("time = \"1m30s\"\ntime_per_rank = \"5 ms\"\nqueue_wait = \"6h\"\n"), "ours.toml");
  EXPECT_EQ(machine.start, (Start{.seconds = 90, .seconds_per_rank = 0.005, .queue_seconds = 21'600}));
  EXPECT_DOUBLE_EQ(machine.start.seconds_of(1000), 95);
  EXPECT_EQ(parse(dump(machine), "dump.toml"), machine);
}

TEST(MachineStart, NoWaitInTheQueueIsNotTheSameAsAnUnknownOne) {
  const Machine unknown = parse(valid_toml, "ours.toml"), none = parse(with_start("queue_wait = 0\n"), "ours.toml");
  EXPECT_FALSE(unknown.start.queue_seconds.has_value());
  EXPECT_EQ(none.start.queue_seconds, 0.0);
  EXPECT_NE(unknown, none);
  EXPECT_EQ(parse(dump(none), "dump.toml"), none);
  EXPECT_EQ(dump(unknown).find("[start]"), std::string::npos);
}

// Published: under 30 s on more than 10,000 GPUs, under 5 s on 2,048, and 265 s on 98,304 with NCCL.
TEST(MachineStart, CommunicatorsTakeAsLongAsPublished) {
  const Start start{.seconds = 0};
  EXPECT_NEAR(start.seconds_of(10'000), 30, 1);
  EXPECT_NEAR(start.seconds_of(98'304), 265, 0.15 * 265);
}

TEST(MachineStart, FiguresOutsideTheirBoundsAreRefused) {
  std::string message;
  try {
    parse(with_start("time = \"soon\"\ntime_per_rank = \"1 min\"\nqueue_wait = -1\nqueue = 3\n"), "ours.toml");
  } catch (const UserError& error) {
    message = error.what();
  }
  for (const char* part :
       {"4 problems in ours.toml", "start.time = \"soon\" must be seconds, or a string such as \"1h30m\"",
        "start.time_per_rank = \"1 min\"", "start.queue_wait = -1 must be from 0 (none)", "unknown key start.queue"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

// Two limits by nodes, and one of another partition.
TEST(MachineStart, TheLongestTimeOfAJob) {
  Launch launch;
  launch.partition = "batch";
  launch.longest_seconds = 5000;
  launch.longest_times = {{"batch", 91, 7200}, {"batch", 184, 21'600}, {"extended", 64, 86'400}};
  EXPECT_EQ(longest_job_seconds(launch, 64), 7200);
  EXPECT_EQ(longest_job_seconds(launch, 92), 21'600);
  EXPECT_EQ(longest_job_seconds(launch, 185), 0) << "no job is as large";
  launch.partition = "extended";
  EXPECT_EQ(longest_job_seconds(launch, 64), 86'400);
  launch.longest_times.clear();
  EXPECT_EQ(longest_job_seconds(launch, 64), 5000);
}

}  // namespace
}  // namespace terrace::machine
