// Reads how often the memory of GPUs and of the node was wrong, as drivers count it.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <string>

#include "terrace/doctor/readings.h"

namespace terrace::doctor {
namespace {

namespace fs = std::filesystem;

// AMD's driver has a file for each part of a GPU, with the lines "ue: 0" and "ce: 3".
void add_amd(const NodeView& view, const std::string& address, Readings& readings) {
  const fs::path folder = fs::path("/sys/bus/pci/devices") / address / "ras";
  MemoryErrors errors{.place = "GPU " + address};
  bool counts = false;
  for (const std::string& name : view.names(folder)) {
    if (!name.ends_with("_err_count")) continue;
    for (const std::string& line : view.lines(folder / name)) {
      std::istringstream words(line);
      std::string kind;
      int64_t count = 0;
      if (!(words >> kind >> count)) continue;
      counts = true;
      if (kind == "ue:") errors.uncorrected += count;
      if (kind == "ce:") errors.corrected += count;
    }
  }
  if (counts) readings.memory_errors.push_back(errors);
}

// Lines of nvidia-smi, "00000000:1B:00.0, 0, 2": the address, and corrected and uncorrected errors, or "[N/A]".
void add_nvidia(const std::string& table, Readings& readings) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::ranges::replace(line, ',', ' ');
    std::istringstream words(line);
    std::string address;
    MemoryErrors errors;
    if (!(words >> address >> errors.corrected >> errors.uncorrected) || address.size() < 12) continue;
    std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
    errors.place = "GPU " + address.substr(address.size() - 12);  // the kernel's domains have four digits
    readings.memory_errors.push_back(errors);
  }
}

void add_node(const NodeView& view, Readings& readings) {
  const fs::path folder = "/sys/devices/system/edac/mc";
  for (const std::string& name : view.names(folder)) {
    const auto corrected = view.number(folder / name / "ce_count"), wrong = view.number(folder / name / "ue_count");
    if (!corrected && !wrong) continue;
    readings.memory_errors.push_back({.place = "the node's memory (" + name + ")",
                                      .corrected = corrected.value_or(0),
                                      .uncorrected = wrong.value_or(0)});
  }
}

}  // namespace

void read_memory_errors(const NodeView& view, Readings& readings) {
  for (const Gpu& gpu : readings.gpus) {
    if (gpu.vendor == "AMD") add_amd(view, gpu.address, readings);
  }
  const bool has_nvidia = std::ranges::find(readings.gpus, "NVIDIA", &Gpu::vendor) != readings.gpus.end();
  if (has_nvidia && view.nvidia_errors) add_nvidia(view.nvidia_errors(), readings);
  add_node(view, readings);
}

}  // namespace terrace::doctor
