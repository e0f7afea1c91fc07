// Trains a run on nodes of which some may be lost: starts the ranks, notices that they or a node die, replaces the node
// by a spare one, and starts the ranks again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/launch/job.h"

namespace terrace::supervise {

struct SupervisedRun {
  launch::Job job;                 // whose request names the nodes that train, and the program on each node
  std::vector<std::string> nodes;  // hosts of the allocation; the first ones train, the others are spares
  // The job on fewer nodes, when there are no spares left. Throws UserError where no layout of the run fits there.
  std::function<launch::Job(int64_t nodes)> smaller = {};
  double silence = 10;  // seconds without a sign after which a node counts as lost
};

// Starts a keeper on each node and the ranks, with --resume auto, and starts them again after each failure of a rank or
// node, until the run has ended by itself. The ranks are ended where a node of theirs is lost. A node that is lost is
// not used again, and neither is one at which failures begin again and again (failure_counts.h). A request to stop
// (base/system/stop_request.h) lets the ranks save and end. Logs what happens, and after each failure how long each
// part took from the last sign of what failed to the next step; failures.jsonl in the run's folder keeps both. Returns
// the exit code of the last start of the ranks: done, stopped, or what another start would not change; peer_failed
// where there were too many failures. Call it on one of the nodes, or where nodes can be reached from, on a thread that
// lives as long as the program. Throws UserError where there are fewer nodes than the job needs.
ExitCode supervise(const SupervisedRun& run);

// How a start of the ranks ended.
struct EndOfRanks {
  int code = 0;               // of mpirun or srun; 128 and the number of a signal
  bool has_begun = false;     // the run's folder was taken by this start
  bool had_begun = false;     // or by an earlier one of this supervisor
  bool has_finished = false;  // the run says that it has made all its steps
  bool has_failed = false;    // the run itself says that it failed
  bool has_lost_node = false;
};

// The exit code with which the supervisor ends; no value where the ranks are to start again.
std::optional<ExitCode> verdict(const EndOfRanks& end);

// The nodes that train next, `count` of them where so many are left: those that trained stay in their places, and the
// first spares take those of nodes that are not left.
std::vector<std::string> chosen_nodes(const std::vector<std::string>& trained, const std::vector<std::string>& left,
                                      int64_t count);

}  // namespace terrace::supervise
