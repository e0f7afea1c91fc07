// Looks for the limit of a machine's [launch] that holds for a job.
#include "terrace/machine/time_limit.h"

#include <algorithm>

namespace terrace::machine {

LimitOfJob limit_of_job(const Launch& launch, const std::string& partition, int64_t nodes) {
  LimitOfJob found;
  for (const TimeLimit& limit : launch.longest_times) {
    if (!limit.partition.empty() && limit.partition != partition) continue;
    found.most_nodes = std::max(found.most_nodes, limit.nodes);
    if (limit.nodes < nodes) {
      found.from_nodes = std::max(found.from_nodes, limit.nodes + 1);
    } else if (found.limit == nullptr || limit.nodes < found.limit->nodes) {
      found.limit = &limit;
    }
  }
  return found;
}

double longest_job_seconds(const Launch& launch, int64_t nodes) {
  const LimitOfJob found = limit_of_job(launch, launch.partition, nodes);
  if (found.most_nodes == 0) return launch.longest_seconds;
  return found.limit == nullptr ? 0 : found.limit->seconds;
}

}  // namespace terrace::machine
