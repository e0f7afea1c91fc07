// Finds how long the site lets a job be, by its nodes and its partition.
#pragma once

#include <cstdint>
#include <string>

#include "terrace/machine/machine.h"

namespace terrace::machine {

// The limit of [launch] longest_times that holds for a job.
struct LimitOfJob {
  const TimeLimit* limit = nullptr;  // lies in the Launch; null where no limit is of as many nodes
  int64_t from_nodes = 1;            // the fewest for which it holds
  int64_t most_nodes = 0;            // of all limits of the partition; 0: it has none
};
LimitOfJob limit_of_job(const Launch& launch, const std::string& partition, int64_t nodes);

// The longest time of jobs of so many nodes in the partition of [launch]; 0: not stated, or the partition takes no jobs
// of so many.
double longest_job_seconds(const Launch& launch, int64_t nodes);

}  // namespace terrace::machine
