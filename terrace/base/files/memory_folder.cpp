// Names and removes folders of copies in memory.
#include "terrace/base/files/memory_folder.h"

#include <span>
#include <vector>

#include "terrace/base/files/file.h"

namespace terrace {

namespace fs = std::filesystem;

fs::path memory_of(const fs::path& memory, const fs::path& run_folder) {
  const std::string name = fs::weakly_canonical(fs::absolute(run_folder)).string();
  return memory / ("terrace_memory_" + checksum(std::as_bytes(std::span(name))));
}

std::string numbered_node(const std::string& host, int64_t number) { return host + "@" + std::to_string(number); }

bool is_node_of(const std::string& node, const std::string& host) {
  return node == host || node.starts_with(host + "@");
}

void remove_memory_of_host(const fs::path& memory, const fs::path& run_folder, const std::string& host) {
  const fs::path own = memory_of(memory, run_folder);
  if (!fs::is_directory(own)) return;
  std::vector<fs::path> nodes;
  for (const auto& node : fs::directory_iterator(own)) {
    if (is_node_of(node.path().filename().string(), host)) nodes.push_back(node.path());
  }
  for (const fs::path& node : nodes) fs::remove_all(node);
  std::error_code not_empty;
  fs::remove(own, not_empty);
}

}  // namespace terrace
