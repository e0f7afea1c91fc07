// Ends a rank in the middle of a rehearsal, as the death of its node would.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "terrace/config/config.h"
#include "terrace/train/trainer.h"

namespace terrace::rehearse {

// The rank that dies, and in which step: `terrace rehearse --kill RANK@STEP`.
struct KilledRank {
  int64_t rank = 0, step = 0;
};

// How the run went on.
struct KillReport {
  KilledRank killed;
  int64_t node = 0;
  double noticed_seconds = 0;  // from the death until all ranks have ended
  int64_t resumed_step = 0;    // the run went on after this step
  bool from_memory = false;    // from the copies in the memory of nodes that are left; else from a checkpoint or step 0
  double next_step_seconds = 0;  // from the death to the end of the next step
  // Whether the losses of all steps are bit for bit those of the same run without the death.
  bool same_bits = false;
};

// The exception by which the rank ends.
class RankKilled : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws RankKilled in the learning rate of the rank's step, before the step computes anything, the first time only.
class Killer {
 public:
  explicit Killer(const KilledRank& killed) : killed_(killed) {}

  // For each rank.
  std::unique_ptr<train::Hook> hook();
  std::optional<std::chrono::steady_clock::time_point> killed_at() const { return killed_at_; }

 private:
  class KillHook;

  KilledRank killed_;
  std::optional<std::chrono::steady_clock::time_point> killed_at_;  // written by the killed rank alone
};

// Removes what the memory of the node holds of the run, as its death would. `config` is that of the run, whose ranks
// are threads of this process.
void lose_memory_of_node(const config::Config& config, int64_t node);

}  // namespace terrace::rehearse
