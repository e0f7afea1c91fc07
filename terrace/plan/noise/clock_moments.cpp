// Carries out the operations of a step with means and covariances in place of times.
#include "terrace/plan/noise/clock_moments.h"

#include <algorithm>

namespace terrace::plan {
namespace {

using schedule::StepOperation;

// A variable for the clock of each stage, and after these one for each slot.
class ClockMoments {
 public:
  explicit ClockMoments(const schedule::StepGraph& graph)
      : stages_(static_cast<size_t>(graph.num_stages)),
        size_(stages_ + static_cast<size_t>(graph.num_slots) + 1),
        means_(size_, 0.0),
        covariances_(size_ * size_, 0.0) {}

  void pass(const StepOperation& one, const Moments& computing) {
    if (one.kind == StepOperation::Kind::barrier) return join();
    const auto clock = static_cast<size_t>(one.stage), begin = size_ - 1;
    copy(clock, begin);
    for (const int32_t slot : one.slots) {
      if (slot >= 0) take_larger(begin, stages_ + static_cast<size_t>(slot));
    }
    for (size_t i = 0; i < 2; ++i) {
      if (one.ends_slot[i]) clear(stages_ + static_cast<size_t>(one.slots[i]));
    }
    means_[begin] += one.seconds;
    if (one.kind == StepOperation::Kind::advance) {
      copy(begin, clock);
      means_[clock] += computing.mean;
      at(clock, clock) += computing.variance;
    } else if (one.out >= 0) {
      copy(begin, stages_ + static_cast<size_t>(one.out));
    }
  }

  // The latest of all clocks, which all stages then have.
  void join() {
    for (size_t stage = 1; stage < stages_; ++stage) take_larger(0, stage);
    for (size_t stage = 1; stage < stages_; ++stage) copy(0, stage);
  }

  Moments of_first_stage() const { return {means_[0], covariances_[0]}; }

 private:
  double& at(size_t row, size_t column) { return covariances_[row * size_ + column]; }

  void set_row(size_t variable, double own) {
    for (size_t other = 0; other < size_; ++other) at(other, variable) = at(variable, other);
    at(variable, variable) = own;
  }

  // Makes `to` the same variable as `from`.
  void copy(size_t from, size_t to) {
    if (from == to) return;
    const double own = at(from, from);
    means_[to] = means_[from];
    std::copy_n(&at(from, 0), size_, &at(to, 0));
    at(to, from) = own;
    set_row(to, own);
  }

  void clear(size_t variable) {
    std::fill_n(&at(variable, 0), size_, 0.0);
    set_row(variable, 0);
  }

  // Replaces a variable by the larger of it and another one.
  void take_larger(size_t variable, size_t other) {
    const auto [moments, share] =
        larger_of({means_[variable], at(variable, variable)}, {means_[other], at(other, other)}, at(variable, other));
    if (share == 1) return;
    means_[variable] = moments.mean;
    double* own = &at(variable, 0);
    const double* row = &at(other, 0);
    for (size_t i = 0; i < size_; ++i) own[i] = share * own[i] + (1 - share) * row[i];
    set_row(variable, moments.variance);
  }

  size_t stages_, size_;
  std::vector<double> means_, covariances_;
};

}  // namespace

Moments step_moments(const schedule::StepGraph& graph, const std::vector<Moments>& computing) {
  ClockMoments clocks(graph);
  for (size_t i = 0; i < graph.operations.size(); ++i) clocks.pass(graph.operations[i], computing[i]);
  clocks.join();
  return clocks.of_first_stage();
}

}  // namespace terrace::plan
