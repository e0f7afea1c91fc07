// The view of a node that the readers of `terrace doctor` have: every file below one root, and few values that are no
// files. With another root the same readers read a copy of another node's files.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/system/cores.h"

namespace terrace::doctor {

struct NodeView {
  std::filesystem::path root = "/";  // the folder that has sys/, proc/ and etc/
  std::map<std::string, std::string> environment = {};
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  // The cores that the job has on this node, of which the rank may be bound to a part; none: all that are online.
  CoreMask job_cores = {};
  // Bus addresses of the GPUs that this process can use, in its order, such as "0000:c1:00.0"; nothing where the
  // program was built without them. Where it is not set, the files of AMD's driver say it.
  std::optional<std::vector<std::string>> gpus = {};
  // Why a library cannot be loaded, "" if it can. Where it is not set, libraries are only looked for.
  std::function<std::string(const std::filesystem::path&)> load_error = {};
  // The output of Slurm's "scontrol show job --oneliner" for a job, "" where Slurm cannot be asked. Where the function
  // is not set, nobody asks.
  std::function<std::string(const std::string& job)> slurm_job = {};
  // The output of nvidia-smi for each GPU, a line "00000000:1B:00.0, 0, 2": its address, and the corrected and
  // uncorrected errors of its memory; "" where nvidia-smi cannot be asked. Where the function is not set, nobody asks.
  std::function<std::string()> nvidia_errors = {};
  // The bytes of a file system and those that are free; by default statvfs below the root.
  std::function<std::optional<std::filesystem::space_info>(const std::filesystem::path&)> space = {};
  // Waits between two looks at what processes do, and returns the seconds; where it is not set, nobody looks.
  std::function<double()> wait_for_work = {};

  // The file's place under the root. All functions below take paths without it.
  std::filesystem::path at(const std::filesystem::path& path) const { return root / path.relative_path(); }
  bool exists(const std::filesystem::path& path) const;  // and can be reached
  // The first line of a file; nothing where it cannot be read.
  std::optional<std::string> line(const std::filesystem::path& path) const;
  std::vector<std::string> lines(const std::filesystem::path& path) const;
  std::optional<int64_t> number(const std::filesystem::path& path) const;
  // The names in a folder in ascending order, numbers by their value; none where it does not exist.
  std::vector<std::string> names(const std::filesystem::path& folder) const;
  // The value of an environment variable, nothing where it is not set.
  std::optional<std::string> variable(const std::string& name) const;
  // The kind of file system that a path is on, such as "lustre", by /proc/self/mountinfo; "" where that is not known.
  // The path need not exist.
  std::string file_system(const std::filesystem::path& path) const;
  // The bytes of the file system of memory (tmpfs) that is mounted at a path, by its option "size"; nothing where none
  // is, or none has this option.
  std::optional<int64_t> memory_disk_bytes(const std::filesystem::path& path) const;
  std::optional<std::filesystem::space_info> space_of(const std::filesystem::path& path) const;
};

// This process's node and environment. `thorough`: libraries are loaded to see whether they can be, what other
// processes do is watched for half a second, and Slurm has two seconds to answer; otherwise, as at the start of a run,
// 50 ms.
NodeView this_node(bool thorough);

// The files below `root`, with the environment of this process. Throws UserError where there is neither sys/ nor proc/.
NodeView node_below(const std::filesystem::path& root);

}  // namespace terrace::doctor
