// Reads which GPUs a node has and which of them a process can use, from the kernel's files alone.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "terrace/doctor/readings.h"

namespace terrace::doctor {
namespace {

namespace fs = std::filesystem;

// PCI's classes of devices that compute: display controllers without a screen and accelerators of AMD, 3D controllers
// of NVIDIA and the cards with a screen that it sells for the same.
constexpr std::string_view amd = "0x1002", nvidia = "0x10de";
constexpr int64_t least_amd_bytes = int64_t{16} << 30;

std::optional<Gpu> gpu_at(const NodeView& view, const std::string& address) {
  const fs::path folder = fs::path("/sys/bus/pci/devices") / address;
  const std::string vendor = view.line(folder / "vendor").value_or(""), kind = view.line(folder / "class").value_or("");
  Gpu gpu{.address = address,
          .vendor = vendor == amd ? "AMD" : "NVIDIA",
          .model = view.line(folder / "device").value_or(""),
          .numa = view.number(folder / "numa_node").value_or(-1),
          .cores = view.line(folder / "local_cpulist").value_or("")};
  if (vendor == amd && (kind.starts_with("0x0380") || kind.starts_with("0x1200"))) {
    gpu.memory_bytes = view.number(folder / "mem_info_vram_total").value_or(0);
    gpu.used_bytes = view.number(folder / "mem_info_vram_used").value_or(0);
    if (gpu.memory_bytes >= least_amd_bytes) return gpu;
  }
  if (vendor == nvidia && (kind.starts_with("0x0302") || kind.starts_with("0x0300"))) return gpu;
  return std::nullopt;
}

// A GPU as AMD's driver describes it to processes. Nodes that the control groups of the process exclude cannot be read.
struct DriverNode {
  std::string address, target;
  std::string identity;  // "GPU-" and the 16 digits of its unique number
};

std::string target_of(int64_t version) {
  return fmt::format("gfx{}{:x}{:x}", version / 10000, version / 100 % 100, version % 100);
}

std::vector<DriverNode> driver_nodes(const NodeView& view) {
  const fs::path nodes = "/sys/class/kfd/kfd/topology/nodes";
  std::vector<DriverNode> gpus;
  for (const std::string& name : view.names(nodes)) {
    std::map<std::string, int64_t> properties;
    for (const std::string& line : view.lines(nodes / name / "properties")) {
      std::istringstream words(line);
      std::string key;
      uint64_t value = 0;
      if (words >> key >> value) properties[key] = static_cast<int64_t>(value);
    }
    if (properties["simd_count"] == 0) continue;
    const auto place = static_cast<uint64_t>(properties["location_id"]);
    gpus.push_back({.address = fmt::format("{:04x}:{:02x}:{:02x}.{}", properties["domain"], place >> 8 & 0xff,
                                           place >> 3 & 0x1f, place & 7),
                    .target = target_of(properties["gfx_target_version"]),
                    .identity = fmt::format("GPU-{:016x}", static_cast<uint64_t>(properties["unique_id"]))});
  }
  return gpus;
}

// The GPUs that a list such as "0,2" or "GPU-3a0f" leaves, in the list's order. The first entry that names none ends
// it.
std::vector<DriverNode> chosen(const std::vector<DriverNode>& gpus, const std::string& list) {
  std::vector<DriverNode> left;
  std::istringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ',');) {
    std::erase(entry, ' ');
    const auto named = std::ranges::find_if(gpus, [&](const DriverNode& gpu) {
      return gpu.identity == entry || std::to_string(&gpu - gpus.data()) == entry;
    });
    if (named == gpus.end()) break;
    left.push_back(*named);
  }
  return left;
}

// HIP counts the GPUs that the runtime below it has left; it takes the name of CUDA's variable too.
std::vector<DriverNode> left_by_environment(const NodeView& view, std::vector<DriverNode> gpus) {
  if (const auto list = view.variable("ROCR_VISIBLE_DEVICES")) gpus = chosen(gpus, *list);
  const auto hip = view.variable("HIP_VISIBLE_DEVICES");
  if (const auto list = hip ? hip : view.variable("CUDA_VISIBLE_DEVICES")) gpus = chosen(gpus, *list);
  return gpus;
}

}  // namespace

void read_gpus(const NodeView& view, Readings& readings) {
  for (const std::string& address : view.names("/sys/bus/pci/devices")) {
    if (auto gpu = gpu_at(view, address)) readings.gpus.push_back(std::move(*gpu));
  }
  const std::vector<DriverNode> nodes = driver_nodes(view);
  const bool has_amd = std::ranges::find(readings.gpus, "AMD", &Gpu::vendor) != readings.gpus.end();
  for (Gpu& gpu : readings.gpus) {
    const auto node = std::ranges::find(nodes, gpu.address, &DriverNode::address);
    if (node != nodes.end()) gpu.target = node->target;
  }
  if (view.gpus) {
    readings.knows_used_gpus = true;
    readings.used_gpus = *view.gpus;
  } else if (has_amd && view.exists("/sys/class/kfd/kfd/topology/nodes")) {
    readings.knows_used_gpus = true;
    for (const DriverNode& node : left_by_environment(view, nodes)) {
      const bool computes = std::ranges::find(readings.gpus, node.address, &Gpu::address) != readings.gpus.end();
      if (computes) readings.used_gpus.push_back(node.address);
    }
  }
}

}  // namespace terrace::doctor
