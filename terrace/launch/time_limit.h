// Says how long the site lets a job be, and refuses jobs that its partition does not take.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/machine/machine.h"

namespace terrace::launch {

struct AllowedTime {
  double seconds = 0;  // 0: not stated
  std::string jobs;    // of which: "jobs of 1 to 91 nodes in partition batch of frontier"
  std::string key;     // of [launch], that says so
};

// Returns the limit for jobs of so many nodes in the machine's partition. Throws UserError where the partition takes no
// jobs of so many.
AllowedTime allowed_time(const machine::Machine& machine, int64_t nodes);

// The words behind "give at most that" where another partition takes such a job: ", or --partition extended, .."; ""
// where none does.
std::string partition_for(const machine::Machine& machine, int64_t nodes, double seconds);

}  // namespace terrace::launch
