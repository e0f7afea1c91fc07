// Where a run's copies in the memory of nodes lie.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace terrace {

// The folder of the run on every node, in checkpoint.memory_folder: "terrace_memory_HASH" by the path of the run's
// folder. In it lies a folder for each node, of the node's name (a host's, or a host's with "@" and a number), and in
// that one a folder for each start of the run.
std::filesystem::path memory_of(const std::filesystem::path& memory, const std::filesystem::path& run_folder);

// The name of a host's node with this number, where the ranks of one host are those of several nodes.
std::string numbered_node(const std::string& host, int64_t number);
// Whether a node of this name is on the host.
bool is_node_of(const std::string& node, const std::string& host);

// Removes what the nodes of the host hold of the run. Throws std::system_error.
void remove_memory_of_host(const std::filesystem::path& memory, const std::filesystem::path& run_folder,
                           const std::string& host);

}  // namespace terrace
