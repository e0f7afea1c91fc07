// What a trial gives: figures, or the reason why it failed. Trials are simulated: the step of the point's configuration
// is predicted on the machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/target.h"
#include "terrace/search/study.h"

namespace terrace::search {

struct Outcome {
  std::vector<double> figures = {};  // in the order of Study::figures; empty if the trial failed
  std::string failure = {};          // "oom", "layout", "error", or ""
  std::string reason = {};           // of the failure

  bool failed() const { return !failure.empty(); }
};

// step_seconds, tokens_per_second or that of the family's items, flops_per_device, mfu, hfu, memory_bytes.
std::vector<Figure> simulated_figures(const config::Family& family);

// The point's configuration, for a planner, and the devices it runs on. Throws UserError with the reason why there is
// none, as when a key refuses its value.
config::Config configuration_of(const Study& study, const Point& point);
int64_t devices_of(const Study& study, const Point& point);

class Simulation {
 public:
  // Throws UserError if there is no such machine or software.
  explicit Simulation(const Study& study);

  // May be called from several threads at a time; never throws UserError.
  Outcome evaluate(const Point& point) const;

 private:
  const Study& study_;  // outlives the simulation
  plan::Target target_;
};

}  // namespace terrace::search
