// Messages of Open MPI 4 and 5 and of Slurm, of which each names the rank that ended first.
#include "terrace/supervise/launcher_messages.h"

#include <gtest/gtest.h>

namespace terrace::supervise {
namespace {

// Four ranks on two nodes.
std::optional<FailedRank> failed(const std::string& text) {
  LauncherMessages messages({"a", "b"}, 2);
  messages.take(text);
  return messages.failed();
}

TEST(LauncherMessages, NameARankThatEndsByASignal) {
  EXPECT_EQ(failed("12:00 step 4\nmpirun noticed that process rank 2 with PID 4711 on node host-b exited on signal 9 "
                   "(Killed).\n"),
            (FailedRank{2, "b", "signal 9 (Killed)"}));
  EXPECT_EQ(failed("mpirun noticed that process rank 0 with PID 0 on node a exited on signal 9.\n"),
            (FailedRank{0, "a", "signal 9"}));
  EXPECT_EQ(failed("prterun noticed that process rank 1 with PID 12 on node a exited on signal 11 (Segmentation "
                   "fault).\n"),
            (FailedRank{1, "a", "signal 11 (Segmentation fault)"}));
  EXPECT_EQ(failed("srun: error: b: task 3: Killed\n"), (FailedRank{3, "b", "Killed"}));
  EXPECT_EQ(failed("srun: error: b: tasks 2-3: Segmentation fault (core dumped)\n"),
            (FailedRank{2, "b", "Segmentation fault (core dumped)"}));
}

TEST(LauncherMessages, NameARankThatEndsWithACodeOfItsOwn) {
  EXPECT_EQ(failed("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n"),
            (FailedRank{3, "b", "exit code 1"}));
  EXPECT_EQ(failed("MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\n  Proc: [[7,1],0]\n"
                   "  Errorcode: 134\n"),
            (FailedRank{0, "a", "exit code 134"}));
  EXPECT_EQ(failed("  Process name: [[41529,1],2]\n  Exit code:    1\n"), (FailedRank{2, "b", "exit code 1"}));
  EXPECT_EQ(failed("   Process name: [prterun-a-1234@1,1] \n   Exit code:    7\n"),
            (FailedRank{1, "a", "exit code 7"}));
  EXPECT_EQ(failed("srun: error: a: task 0: Exited with exit code 134\n"), (FailedRank{0, "a", "exit code 134"}));
}

TEST(LauncherMessages, BlameNoRankThatEndsBecauseOfAnother) {
  EXPECT_EQ(failed("srun: error: a: tasks 0-1: Exited with exit code 5\nsrun: error: b: task 3: Killed\n"),
            (FailedRank{3, "b", "Killed"}));
  EXPECT_EQ(failed("srun: error: a: task 0: Terminated\n"), std::nullopt);
  EXPECT_EQ(failed("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\nwith errorcode 5.\n"),
            std::nullopt);
  EXPECT_EQ(failed("mpirun noticed that process rank 0 with PID 1 on node a exited on signal 15 (Terminated).\n"),
            std::nullopt);
  EXPECT_EQ(failed("Exit code: 1\n"), std::nullopt) << "no rank";
}

TEST(LauncherMessages, BlameTheFirstRankAlone) {
  EXPECT_EQ(failed("srun: error: a: task 1: Killed\nsrun: error: b: task 3: Killed\n"), (FailedRank{1, "a", "Killed"}));
}

TEST(LauncherMessages, AreWholeLinesHoweverTheyArrive) {
  LauncherMessages messages({"a", "b"}, 2);
  std::string passed_on;
  for (const char* piece : {"sr", "un: error: b: task 2: Kil", "led\nstep 5, ", "loss 2"}) {
    const std::string lines = messages.take(piece);
    EXPECT_TRUE(lines.empty() || lines.ends_with("\n")) << lines;
    passed_on += lines;
  }
  EXPECT_EQ(messages.failed(), (FailedRank{2, "b", "Killed"}));
  EXPECT_EQ(passed_on, "srun: error: b: task 2: Killed\n");
  EXPECT_EQ(messages.take("", /*is_last=*/true), "step 5, loss 2");
}

}  // namespace
}  // namespace terrace::supervise
