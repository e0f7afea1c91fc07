// Compares the places of each axis' ranks with the sizes of the tiers.
#include "terrace/plan/report/spanned_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/config/names.h"

namespace terrace::plan {
namespace {

bool some_group_crosses(const mesh::Mesh& mesh, const std::string& axis, int64_t devices) {
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    if (mesh.coordinate(rank, axis) != 0) continue;
    const std::vector<int64_t> ranks = mesh.group(rank, axis).ranks;
    const auto [first, last] = std::ranges::minmax(ranks);
    if (first / devices != last / devices) return true;
  }
  return false;
}

}  // namespace

std::optional<SpannedGroups> spanned_groups(const mesh::Mesh& mesh, const machine::Machine& machine) {
  const int64_t devices = machine.devices_of("group");
  if (devices == 1 || mesh.size() <= devices) return std::nullopt;
  SpannedGroups spanned{.groups = (mesh.size() + devices - 1) / devices,
                        .nodes_of_group = devices / machine.devices_of("node")};
  for (const mesh::Axis& axis : mesh.axes()) {
    if (axis.size == 1) continue;
    (some_group_crosses(mesh, axis.name, devices) ? spanned.across : spanned.inside).push_back(axis.name);
  }
  return spanned;
}

std::string text_of(const SpannedGroups& spanned) {
  std::string text = fmt::format("the nodes lie in {} groups of {}: ranks along {} exchange data between them",
                                 spanned.groups, spanned.nodes_of_group, config::listed(spanned.across, "and"));
  if (!spanned.inside.empty()) {
    text += fmt::format(", those along {} stay inside one", config::listed(spanned.inside, "and"));
  }
  return text;
}

Json json_of(const SpannedGroups& spanned) {
  return {{"groups", spanned.groups},
          {"nodes_of_group", spanned.nodes_of_group},
          {"across", spanned.across},
          {"inside", spanned.inside}};
}

}  // namespace terrace::plan
