// Names a rank's node and device, and lists its groups.
#include "terrace/run/rank_place.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/base/system/core_list.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/system/process_identity.h"

namespace terrace::run {

std::string place_of(const at::Device& device) {
  const std::string host = identity_of_this_process().host;
  if (!device.is_cpu()) return fmt::format("node {}, GPU {}", host, device.has_index() ? device.index() : 0);
  const std::string cores = list_of_cores(core_mask());
  return cores.empty() ? "node " + host : fmt::format("node {}, cores {}", host, cores);
}

std::vector<comm::Comm*> groups_with_data(parallel::CutModel& cut) {
  std::vector<comm::Comm*> groups;
  for (comm::Comm* group : cut.groups_of_step()) {
    const auto same = [&](const comm::Comm* other) { return other->group().ranks == group->group().ranks; };
    const bool only_counts = group == cut.groups.control.get() || group == cut.groups.model_parallel.get();
    if (!only_counts && std::ranges::none_of(groups, same)) groups.push_back(group);
  }
  return groups;
}

}  // namespace terrace::run
