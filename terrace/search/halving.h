// Asynchronous successive halving: Li, Jamieson, Rostamizadeh, Gonina, Hardt, Recht, Talwalkar, "A system for massively
// parallel hyperparameter tuning", MLSys 2020, algorithm 2. A trial that ends at a budget continues to the next one as
// soon as it is among the best 1/factor of all trials that have ended there; no trial waits for others.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "terrace/search/proposals/optimizer.h"
#include "terrace/search/study/study.h"

namespace terrace::search {

class HalvingLadder {
 public:
  explicit HalvingLadder(const Halving& halving);

  // A trial has ended at a budget; one that failed has no objective.
  void tell(int64_t trial, int64_t budget, Objective objective);

  struct Promotion {
    int64_t trial = 0;
    int64_t budget = 0;  // the budget to which the trial continues
  };
  // The trial that may continue, from the highest budget at which there is one, the best first. It counts as continued
  // from now on.
  std::optional<Promotion> promote();
  // A trial that an earlier search had begun to continue.
  void set_promoted(int64_t trial, int64_t from_budget);

  int64_t first_budget() const { return budgets_.front(); }

 private:
  struct Ended {
    Objective objective;
    bool continued = false;
  };

  int64_t factor_;
  std::vector<int64_t> budgets_;
  std::map<int64_t, std::map<int64_t, Ended>> ended_;  // by budget and trial
};

}  // namespace terrace::search
