// The run that a rehearsal trains: the layers, the layout and the batch of a configuration, with tensors as small as
// the layout allows and random samples in place of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "terrace/config/family.h"
#include "terrace/plan/planned_run.h"
#include "terrace/rehearse/narrowed_description.h"
#include "terrace/rehearse/random_data.h"

namespace terrace::rehearse {

struct NarrowOptions {
  int64_t width = 0;  // of the model; 0: as small as the layout allows
  int64_t steps = 2;
  std::filesystem::path folder;   // of the run
  bool evaluates = false;         // every step instead of never
  bool copies_in_memory = false;  // of the states, after every step unless the configuration says when
};

// The family of `config` is a member of this object, which outlives every use of the configuration.
class NarrowedRun {
 public:
  // `planned` is the configuration on the machine that is rehearsed for; its units are divided among stages as there.
  NarrowedRun(const plan::PlannedRun& planned, const NarrowOptions& options);
  NarrowedRun(const NarrowedRun&) = delete;

  const config::Config& config() const { return config_; }

 private:
  RandomData data_;
  NarrowedDescription description_;
  config::Family family_;
  config::Config config_;
};

// Returns the configuration for one rank, with the same model, samples and updates and so many samples a micro-batch.
config::Config on_one_rank(const config::Config& narrowed, int64_t micro_batch);

}  // namespace terrace::rehearse
