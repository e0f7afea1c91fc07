// Evaluates a trial: an outcome has figures, or the reason why the trial failed; and what all ways of evaluation have
// in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/search/study/study.h"

namespace terrace::search {

struct Outcome {
  std::vector<double> figures = {};  // in the order of Study::figures; empty if the trial failed
  std::string failure = {};  // "oom", "layout", "time", "stopped", "start", "objective", "reported", "error", ""
  std::string reason = {};   // the reason of the failure

  bool failed() const { return !failure.empty(); }
};

// A piece of work for a trial: all of it, or with successive halving the way to its next budget.
struct TrialJob {
  int64_t id = 0;
  int64_t trial = 0;  // the job that began the trial
  Point point = {};
  int64_t budget = 0;  // 0: all

  bool continues() const { return id != trial; }
};

// "M of them by F_KIND: REASON" of the failure that most of these outcomes have.
std::string commonest_failure(const std::vector<Outcome>& failures);

class TrialEvaluator {
 public:
  virtual ~TrialEvaluator() = default;

  // May be called from several threads at a time; what is thrown on the way is a failure of the trial.
  Outcome evaluate(const TrialJob& job);
  // Whether an outcome depends on the point alone, and not on the machine and what it does meanwhile.
  virtual bool is_exact() const = 0;
  // The search is over, with these trials as its best.
  virtual void finish(const std::vector<int64_t>& /*best*/) {}
  // Ends what is under way; outcomes from now on mean nothing.
  virtual void stop() {}

 private:
  virtual Outcome run(const TrialJob& job) = 0;
};

// step_seconds, tokens_per_second or that of the family's items, flops_per_device, mfu, hfu, memory_bytes; the step's
// interval by published errors (plan::StepInterval), shortest_seconds and longest_seconds, NaN where there is none, and
// median_difference of these errors; with a noise scale also same_loss_seconds and same_loss_samples
// (Study::noise_scale).
std::vector<TrialFigure> simulated_figures(const config::Family& family, bool has_noise_scale = false);
// step_seconds, tokens_per_second or that of the family's items, mfu, memory_bytes, loss, validation_loss.
std::vector<TrialFigure> trained_figures(const config::Config& config);

// The point's configuration, for a planner, and the devices it runs on. Throws UserError with the reason why there is
// none, as when a key refuses its value.
config::Config configuration_of(const Study& study, const Point& point);
int64_t devices_of(const Study& study, const Point& point);

}  // namespace terrace::search
