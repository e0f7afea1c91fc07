// Sets the rates in a machine's description by the times of runs on it. docs/planning.md, "Fitting a machine", explains
// the method.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/plan/report/published_errors.h"
#include "terrace/score/score.h"

namespace terrace::score {

// How much one run says about a constant: its part of what all runs say, which are 1 together.
struct Evidence {
  size_t run = 0;  // in Fit::runs
  double share = 0;
};

struct FittedConstant {
  std::string key = {};               // as in messages about the file: "device.bf16.achievable"
  double before = 0, after = 0;       // in the unit of the struct's field
  double least = 0, most = 0;         // with a probability of 90%
  double known = 0;                   // the part of the doubt about it that the runs have removed, 0 to 1
  std::vector<Evidence> set_by = {};  // the runs that say most, three at most
  // These values with their units, as the file has them.
  std::string before_text = {}, after_text = {}, least_text = {}, most_text = {};
};

struct FittedRun {
  ScoredRun scored = {};        // by the description as it was; the fit keeps its configuration
  double seconds = 0;           // of a step, by the fitted description
  double left_out_seconds = 0;  // by the description fitted to all runs but this one
  double weight = 1;            // below 1 for a run that is further off than runs are
  double error() const { return seconds / scored.measured - 1; }
  double left_out_error() const { return left_out_seconds / scored.measured - 1; }
};

struct Fit {
  machine::Machine machine = {};  // fitted, with `errors` of kinds with three runs or more
  std::vector<FittedConstant> constants = {};
  std::vector<std::string> unknown = {};  // keys of constants of which the runs say nothing: they are as they were
  std::vector<FittedRun> runs = {};
  std::vector<PublishedRun> left_out = {};  // those with problems
  double spread = 0;                        // of the logarithms of measured over predicted, by the fit

  // Means of the absolute errors.
  double error_before() const;
  double error_after() const;
  double error_left_out() const;
};

// All runs must be of one machine, the description of which is fitted; what is known of their programs is kept. Throws
// UserError if no run can be predicted, or the runs name several machines.
Fit fit_machine(const std::vector<PublishedRun>& runs);

// The errors to be expected of predictions with the fitted description, by kind of layout: of 40 runs or more the 5th
// and the 95th percentile of the errors of the runs where each is left out; of 3 to 39 runs the interval of 90% of
// Student's t distribution, or the extremes where these are further apart. Kinds with fewer runs have none.
std::vector<plan::PublishedErrors> expected_errors(const std::vector<FittedRun>& runs);

}  // namespace terrace::score
