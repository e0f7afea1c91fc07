// Reads interfaces of the network, and finds the plug-in through which RCCL or NCCL uses it.
#include <fnmatch.h>

#include <filesystem>
#include <fstream>
#include <iterator>
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

// Whether a name matches a pattern such as "*.conf".
bool matches(const std::string& name, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

// The folders that a file such as /etc/ld.so.conf names, and those of the files that it includes.
void add_folders(const NodeView& view, const fs::path& file, int depth, std::vector<fs::path>& folders) {
  for (const std::string& line : view.lines(file)) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    if (word != "include") {
      folders.emplace_back(word);
      continue;
    }
    while (depth < 4 && words >> word) {
      const fs::path pattern = fs::path(word).is_absolute() ? fs::path(word) : file.parent_path() / word;
      for (const std::string& name : view.names(pattern.parent_path())) {
        if (matches(name, pattern.filename())) add_folders(view, pattern.parent_path() / name, depth + 1, folders);
      }
    }
  }
}

// The path of a library in the cache of ld.so, in which paths end with a zero byte; "" where it is not in it.
std::string path_in_cache(const std::string& cache, const std::string& name) {
  const std::string end = "/" + name + std::string(1, '\0');
  for (size_t at = cache.find(end); at != std::string::npos; at = cache.find(end, at + 1)) {
    const size_t before = at == 0 ? std::string::npos : cache.rfind('\0', at - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    if (cache[begin] == '/') return cache.substr(begin, at + end.size() - 1 - begin);
  }
  return "";
}

// The path at which ld.so finds the first of these libraries without LD_LIBRARY_PATH: by its cache, or in a folder of
// its configuration or one that it knows; "" where it finds none.
std::string find_by_ld_so(const NodeView& view, const std::vector<std::string>& names) {
  std::ifstream file(view.at("/etc/ld.so.cache"), std::ios::binary);
  const std::string cache((std::istreambuf_iterator<char>(file)), {});
  std::vector<fs::path> folders = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};
  add_folders(view, "/etc/ld.so.conf", 0, folders);
  for (const std::string& name : names) {
    std::string cached = path_in_cache(cache, name);
    // Copies of another node's /sys, /proc and /etc have no libraries.
    if (!cached.empty() && (view.root != "/" || view.exists(cached))) return cached;
    for (const fs::path& folder : folders) {
      if (view.exists(folder / name)) return folder / name;
    }
    // ld.so looks into folders beside these, such as those in the program.
    if (view.root == "/" && view.load_error && view.load_error(name).empty()) return name;
  }
  return "";
}

// The path of the plug-in; "" where it is in no folder of LD_LIBRARY_PATH and ld.so finds none.
std::string find_plug_in(const NodeView& view) {
  const std::string value = view.variable("NCCL_NET_PLUGIN").value_or("");
  if (value.find('/') != std::string::npos) return view.exists(value) ? value : "";
  const std::vector<std::string> names = plug_in_names(value);
  std::istringstream folders(view.variable("LD_LIBRARY_PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const std::string& name : names) {
      if (!folder.empty() && view.exists(fs::path(folder) / name)) return fs::path(folder) / name;
    }
  }
  return value == "none" ? "" : find_by_ld_so(view, names);
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
