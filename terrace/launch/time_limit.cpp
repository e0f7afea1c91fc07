// Says which limit of a machine's [launch] holds for a job.
#include "terrace/launch/time_limit.h"

#include <fmt/format.h>

#include "terrace/base/error.h"
#include "terrace/launch/job_time.h"
#include "terrace/machine/time_limit.h"

namespace terrace::launch {
namespace {

using machine::limit_of_job;
using machine::LimitOfJob;
using machine::TimeLimit;

std::string nodes_text(const LimitOfJob& found) {
  return fmt::format("jobs of {} to {} nodes", found.from_nodes, found.limit->nodes);
}

std::string partition_text(const std::string& partition) {
  return partition.empty() ? "" : fmt::format("partition {} of ", partition);
}

}  // namespace

AllowedTime allowed_time(const machine::Machine& machine, int64_t nodes) {
  const machine::Launch& launch = machine.launch;
  const LimitOfJob found = limit_of_job(launch, launch.partition, nodes);
  if (found.most_nodes == 0) {
    return {.seconds = launch.longest_seconds, .jobs = "jobs on " + machine.name, .key = "longest_time"};
  }
  if (found.limit == nullptr) {
    throw UserError::of("jobs in {}{} have at most {} nodes ([launch] longest_times), and --nodes is {}; use fewer{}",
                        partition_text(launch.partition), machine.name, found.most_nodes, nodes,
                        partition_for(machine, nodes, 0));
  }
  return {.seconds = found.limit->seconds,
          .jobs = fmt::format("{} in {}{}", nodes_text(found), partition_text(launch.partition), machine.name),
          .key = "longest_times"};
}

std::string partition_for(const machine::Machine& machine, int64_t nodes, double seconds) {
  for (const TimeLimit& limit : machine.launch.longest_times) {
    if (limit.partition.empty() || limit.partition == machine.launch.partition) continue;
    const LimitOfJob found = limit_of_job(machine.launch, limit.partition, nodes);
    if (found.limit == nullptr || found.limit->seconds < seconds) continue;
    return fmt::format(", or --partition {}, in which {} may take {}", limit.partition, nodes_text(found),
                       job_time_text(found.limit->seconds));
  }
  return "";
}

}  // namespace terrace::launch
