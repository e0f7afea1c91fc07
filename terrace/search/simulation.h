// Trials that are simulated: the step of the point's configuration is predicted on the study's machine, whose name may
// have values of the trial in braces.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "terrace/plan/target.h"
#include "terrace/search/evaluate.h"

namespace terrace::search {

class Simulation : public TrialEvaluator {
 public:
  // Throws UserError if there is no such machine or software. The study outlives the simulation.
  explicit Simulation(const Study& study);

  bool is_exact() const override { return true; }

 private:
  // The figures are simulated_figures().
  Outcome run(const TrialJob& job) override;
  machine::Machine machine_of(const Point& point) const;

  const Study& study_;
  bool varies_machine_;  // from trial to trial
  plan::Target target_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, machine::Machine> machines_;  // the machines that were read
};

}  // namespace terrace::search
