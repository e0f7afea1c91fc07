// Finds in the messages of mpirun and srun which rank ended before the others, and so on which node a failure began.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::supervise {

// A rank that ended by itself, and not because another one did.
struct FailedRank {
  int64_t rank = 0;
  std::string node;
  std::string how;  // "signal 9 (Killed)", "exit code 1"

  bool operator==(const FailedRank&) const = default;
};

// Reads what a launcher writes to standard error: the lines "mpirun noticed that process rank 3 .. exited on signal 9"
// (prterun's in Open MPI 5), the notices of MPI_ABORT and of exit codes of both versions, and Slurm's "srun: error:
// node7: task 3: Killed". Ranks that were asked to end (SIGTERM, SIGINT, exit codes 0 and 4), or say themselves that
// another rank failed (exit code 5), are not to blame.
class LauncherMessages {
 public:
  // The nodes in the order of their ranks, and as many ranks on each.
  LauncherMessages(std::vector<std::string> nodes, int64_t ranks_per_node);

  // Takes the next piece of the text, which may end anywhere, and returns the lines that are whole now, for the reader
  // of the log. `is_last`: the rest counts as a line too.
  std::string take(const std::string& piece, bool is_last = false);

  // The first rank that a line so far blames; no value where there is none.
  const std::optional<FailedRank>& failed() const { return failed_; }

 private:
  void read(std::string_view line);
  void blame(int64_t rank, std::string how);

  std::vector<std::string> nodes_;
  int64_t ranks_per_node_;
  std::string begun_ = {};               // the line that is not whole yet
  std::optional<int64_t> of_rank_ = {};  // named by the line before, whose exit code follows
  std::optional<FailedRank> failed_ = {};
};

}  // namespace terrace::supervise
