// Shrinks the tier "group" to the nodes that a job has in one of its groups.
#include "terrace/machine/over_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/names.h"

namespace terrace::machine {
namespace {

int64_t divided_up(int64_t number, int64_t divisor) { return (number + divisor - 1) / divisor; }

std::vector<Tier>::iterator group_of(std::vector<Tier>& tiers) {
  return std::ranges::find(tiers, "group", &Tier::name);
}

// The built-in machines whose networks have groups.
std::vector<std::string> machines_with_groups() {
  std::vector<std::string> found;
  for (const std::string& name : names()) {
    if (load(name).devices_of("group") > 1) found.push_back(name);
  }
  return found;
}

}  // namespace

Machine over_groups(const Machine& machine, int64_t devices, int64_t groups) {
  Machine job = machine;
  const auto group = group_of(job.tiers);
  if (group == job.tiers.end()) {
    throw UserError::of("--groups {}: {} has no tier \"group\"; leave --groups out, or name {}", groups,
                        machine.source(), config::listed(machines_with_groups(), "or"));
  }
  const int64_t in_node = machine.devices_of("node"), nodes = divided_up(devices, in_node);
  const int64_t nodes_of_group = group->devices / in_node, all_groups = divided_up(machine.devices(), group->devices);
  const int64_t fewest = divided_up(nodes, nodes_of_group), most = std::min(nodes, all_groups);
  if (groups < fewest || groups > most) {
    throw UserError::of("--groups {}: {} nodes of {}, which has {} groups of {} nodes, lie in {}", groups, nodes,
                        machine.source(), all_groups, nodes_of_group,
                        fewest == most ? std::to_string(fewest) : fmt::format("{} to {} groups", fewest, most));
  }
  const double rate_of_device = group->link_bandwidth / group->devices_per_link;
  group->devices = divided_up(nodes, groups) * in_node;
  if (group->devices > in_node || group + 1 == job.tiers.end()) return job;
  // Nothing stays inside a group of one node, so that its links limit what leaves the group.
  Tier& outside = *(group + 1);
  outside.link_bandwidth = std::min(outside.link_bandwidth, rate_of_device * outside.devices_per_link);
  return job;
}

}  // namespace terrace::machine
