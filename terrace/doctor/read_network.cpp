// Reads interfaces of the network, and finds the plug-in through which RCCL or NCCL uses it.
#include <sstream>
#include <string>
#include <vector>

#include "terrace/doctor/readings.h"

namespace terrace::doctor {
namespace {

namespace fs = std::filesystem;

// The file names that RCCL and NCCL try for a value of NCCL_NET_PLUGIN.
std::vector<std::string> plug_in_names(const std::string& value) {
  if (value.empty()) return {"librccl-net.so", "libnccl-net.so"};
  return {value, "librccl-net-" + value + ".so", "libnccl-net-" + value + ".so"};
}

// Where the plug-in is; "" where it is in no folder of LD_LIBRARY_PATH.
std::string find_plug_in(const NodeView& view) {
  const std::string value = view.variable("NCCL_NET_PLUGIN").value_or("");
  if (value.find('/') != std::string::npos) return view.exists(value) ? value : "";
  std::istringstream folders(view.variable("LD_LIBRARY_PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const std::string& name : plug_in_names(value)) {
      if (!folder.empty() && view.exists(fs::path(folder) / name)) return fs::path(folder) / name;
    }
  }
  return "";
}

}  // namespace

void read_network(const NodeView& view, Readings& readings) {
  const fs::path net = "/sys/class/net";
  for (const std::string& name : view.names(net)) {
    if (view.line(net / name / "operstate").value_or("up") != "down") readings.interfaces.push_back(name);
  }
  readings.infiniband = view.names("/sys/class/infiniband");
  readings.plug_in = find_plug_in(view);
  if (!readings.plug_in.empty() && view.load_error) readings.plug_in_error = view.load_error(readings.plug_in);
}

}  // namespace terrace::doctor
