// Trials that are simulated: the step of the point's configuration is predicted on the study's machine.
#pragma once

#include "terrace/plan/target.h"
#include "terrace/search/evaluate.h"

namespace terrace::search {

class Simulation : public TrialEvaluator {
 public:
  // Throws UserError if there is no such machine or software. The study outlives the simulation.
  explicit Simulation(const Study& study);

  // The figures are simulated_figures().
  Outcome evaluate(const Point& point) const;
  Outcome evaluate(const Job& job) override { return evaluate(job.point); }
  bool is_exact() const override { return true; }

 private:
  const Study& study_;
  plan::Target target_;
};

}  // namespace terrace::search
