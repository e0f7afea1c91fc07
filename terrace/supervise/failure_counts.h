// Counts the failures of a run since it last made progress, of all nodes and of the node at which they began.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::supervise {

// A run that fails so often without a newer step to continue from is given up.
inline constexpr int64_t most_failures = 3;
// A node at which so many failures in a row begin, without a new step in between, is left out. Where the same rank then
// fails on the node that takes its place, before a new step, the node was not the cause, and no other one is left out.
inline constexpr int64_t most_failures_of_node = 2;

struct Failure {
  std::string node = {};  // whose rank ended first; "" where that is not known, or where a node was lost
  int64_t rank = -1;      // that ended first; -1 where that is not known
  int64_t from_step = 0;  // after which the failed start began
  int64_t last_step = 0;  // that the run has made
};

class FailureCounts {
 public:
  void add(const Failure& failure);

  // The node to leave out after the last failure; "" for none.
  std::string node_to_leave_out() const;
  bool is_to_give_up() const { return without_newer_ >= most_failures; }
  int64_t without_newer() const { return without_newer_; }  // failures since a start had a newer step to begin with
  // Forgets the failures, once what caused them is left out. The steps that the run has made stay known.
  void forgive();

 private:
  int64_t furthest_start_ = -1, furthest_step_ = -1;
  int64_t without_newer_ = 0, at_node_ = 0;
  std::string node_;
  int64_t rank_ = -1;
  int64_t moved_rank_ = -1;  // of a node that was left out, until the run makes a new step
};

}  // namespace terrace::supervise
