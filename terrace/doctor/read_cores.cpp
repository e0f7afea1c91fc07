// Reads on which cores a rank may run, and where these are in the node.
#include <filesystem>
#include <string>

#include "terrace/base/system/control_groups.h"
#include "terrace/base/system/core_list.h"
#include "terrace/doctor/readings.h"

namespace terrace::doctor {
namespace {

namespace fs = std::filesystem;

// The list in "Cpus_allowed_list:\t1-7".
std::string own_cores(const NodeView& view) {
  constexpr std::string_view name = "Cpus_allowed_list:";
  for (const std::string& line : view.lines("/proc/self/status")) {
    if (line.starts_with(name)) return list_of_cores(cores_of_list(line.substr(name.size())));
  }
  return "";
}

std::vector<int64_t> first_cores_of_regions(const NodeView& view) {
  const fs::path folder = "/sys/devices/system/cpu";
  CoreMask firsts;
  for (const std::string& name : view.names(folder)) {
    if (!name.starts_with("cpu")) continue;
    const CoreMask region = cores_of_list(view.line(folder / name / "cache/index3/shared_cpu_list").value_or(""));
    if (region.any()) firsts[region._Find_first()] = true;
  }
  std::vector<int64_t> all;
  for (size_t core = firsts._Find_first(); core < firsts.size(); core = firsts._Find_next(core)) {
    all.push_back(static_cast<int64_t>(core));
  }
  return all;
}

}  // namespace

void read_cores(const NodeView& view, Readings& readings) {
  readings.cores = own_cores(view);
  readings.node_cores = view.line("/sys/devices/system/cpu/online").value_or("");
  readings.job_cores = view.job_cores.any() ? list_of_cores(view.job_cores) : readings.node_cores;
  readings.quota = core_quota(view.root);
  const fs::path nodes = "/sys/devices/system/node";
  for (const std::string& name : view.names(nodes)) {
    if (!name.starts_with("node")) continue;
    const std::string list = view.line(nodes / name / "cpulist").value_or("");
    if (!list.empty()) readings.numa_of_cores[list] = std::stoll("0" + name.substr(4));
  }
  readings.first_cores = first_cores_of_regions(view);
}

}  // namespace terrace::doctor
