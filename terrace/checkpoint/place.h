// The common part of every way to save: room, lock, temporary name, final name, retention.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "terrace/base/json.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/members.h"
#include "terrace/checkpoint/written.h"

namespace terrace::checkpoint {

struct Placement {
  std::filesystem::path folder;  // of the run
  int64_t step = 0;
  Json trainer;
  int64_t needed_bytes = 0;  // the least that this rank's files take
  Retention retention;
  Members members;
};

// Makes folder/step_N out of what the members' `write` put into the folder they are given, a new and empty one under a
// temporary name; see save() for the rest. `write` makes no calls of the members' Comm.
std::filesystem::path place_checkpoint(const Placement& placement,
                                       const std::function<Written(const std::filesystem::path&)>& write);

// Of the state's tensors.
int64_t needed_bytes(const State& state);

}  // namespace terrace::checkpoint
