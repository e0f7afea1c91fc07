// Compares each failure with the one before.
#include "terrace/supervise/failure_counts.h"

#include <algorithm>

namespace terrace::supervise {

void FailureCounts::add(const Failure& failure) {
  without_newer_ = failure.from_step > furthest_start_ ? 1 : without_newer_ + 1;
  furthest_start_ = std::max(furthest_start_, failure.from_step);
  const bool repeats = !failure.node.empty() && failure.node == node_ && failure.last_step <= furthest_step_;
  at_node_ = failure.node.empty() ? 0 : repeats ? at_node_ + 1 : 1;
  node_ = failure.node;
  rank_ = failure.rank;
  if (failure.last_step > furthest_step_) moved_rank_ = -1;
  furthest_step_ = std::max(furthest_step_, failure.last_step);
}

std::string FailureCounts::node_to_leave_out() const {
  const bool goes_with_rank = rank_ >= 0 && rank_ == moved_rank_;
  return at_node_ >= most_failures_of_node && !goes_with_rank ? node_ : "";
}

void FailureCounts::forgive() {
  moved_rank_ = rank_;
  without_newer_ = at_node_ = 0;
  node_.clear();
}

}  // namespace terrace::supervise
