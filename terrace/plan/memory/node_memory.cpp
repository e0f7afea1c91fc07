// Adds up the ranks of each node.
#include "terrace/plan/memory/node_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/text/units.h"
#include "terrace/plan/memory/copied_states.h"
#include "terrace/plan/memory/memory_need.h"

namespace terrace::plan {

NodeMemory node_memory(const PlannedRun& run, const std::vector<RankBytes>& by_stage, const machine::Host& host) {
  const StateCopies copies = state_copies(run.config.checkpoint, !host.holds_devices);
  if (copies == StateCopies{}) return {};
  const int64_t ranks = run.mesh.size(), here = std::min(ranks, run.mesh.topology().ranks_per_node);
  std::vector<RankBytes> nodes(static_cast<size_t>((ranks + here - 1) / here));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const RankBytes& own = by_stage.at(static_cast<size_t>(run.mesh.coordinate(rank, "pipeline")));
    RankBytes& node = nodes[static_cast<size_t>(rank / here)];
    node.saved += own.saved;
    node.device += own.device;
  }
  NodeMemory most;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const double before = nodes.size() > 1 ? nodes[(i + nodes.size() - 1) % nodes.size()].saved : 0;
    const NodeMemory need{.written = static_cast<double>(copies.written) * nodes[i].saved,
                          .files = static_cast<double>(copies.files) * (nodes[i].saved + before),
                          .devices = host.holds_devices ? nodes[i].device : 0};
    if (need.all() > most.all()) most = need;
  }
  return most;
}

std::string node_memory_reason(const NodeMemory& need, const PlannedRun& run, const Target& target) {
  const double memory = target.machine.host.memory_bytes;
  if (memory == 0 || need.copies() == 0 || need.all() <= memory) return "";
  const std::string devices =
      need.devices > 0 ? fmt::format(" beside {} of its ranks", format_bytes(need.devices)) : "";
  const bool on_one_node = is_one_node(run.config, run.mesh.size(), target.ranks_per_node());
  return fmt::format(
      "the copies of the states take {} of a node{}, whose memory is {} ([host] memory of {}); use {}or "
      "more nodes",
      format_bytes(need.copies()), devices, format_bytes(memory), target.machine.name,
      fewer_copies(run.config.checkpoint, on_one_node, !target.machine.host.holds_devices));
}

Json json_of(const NodeMemory& need, const Target& target) {
  const double memory = target.machine.host.memory_bytes;
  return {{"written_bytes", need.written},
          {"files_bytes", need.files},
          {"devices_bytes", need.devices},
          {"bytes", need.all()},
          {"of_bytes", memory > 0 ? Json(memory) : Json(nullptr)}};
}

std::string text_of(const NodeMemory& need, const config::Config& config, const Target& target) {
  if (need.copies() == 0) return "";
  const double memory = target.machine.host.memory_bytes;
  const std::string& folder = config.checkpoint.memory_folder;
  std::string text = fmt::format("copies of the states in the memory of a node: {}", format_bytes(need.copies()));
  if (need.files > 0) text += fmt::format(", {} of them in {}", format_bytes(need.files), folder);
  if (need.devices > 0) text += fmt::format(", beside {} of its devices", format_bytes(need.devices));
  text += memory > 0 ? fmt::format("; it has {}\n", format_bytes(memory))
                     : fmt::format(" ({} states no memory in [host])\n", target.machine.source());
  if (memory == 0 || need.files <= memory / 2 || !folder.starts_with("/dev/shm")) return text;
  return text + fmt::format(
                    "warning: {} may take {} where nobody set its size, half of the memory: enlarge it (mount -o "
                    "remount,size={:.0f}G /dev/shm), use more nodes, or name another checkpoint.memory_folder\n",
                    folder, format_bytes(memory / 2), std::ceil(need.files / (1 << 30)));
}

}  // namespace terrace::plan
