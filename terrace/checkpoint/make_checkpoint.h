// The part that all ways of saving share: free space, lock, temporary name, final name, retention.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "terrace/base/text/json.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/saving_ranks.h"
#include "terrace/checkpoint/written_files.h"

namespace terrace::checkpoint {

struct SaveRequest {
  std::filesystem::path folder;  // of the run
  int64_t step = 0;
  Json trainer;
  int64_t needed_bytes = 0;  // a lower bound of the size of this rank's files
  Retention retention;
  SavingRanks ranks;
};

// Makes the checkpoint folder/step_N from the files that `write` of each rank puts into the folder that it is called
// with, a new one under a temporary name; see save() for the rest. `write` makes no calls of the ranks' Comm.
std::filesystem::path make_checkpoint(const SaveRequest& request,
                                      const std::function<WrittenFiles(const std::filesystem::path&)>& write);

// The size of the state's tensors.
int64_t needed_bytes(const State& state);

}  // namespace terrace::checkpoint
