// Reads where a run writes: its folder, caches of compiled kernels, and the disk of the node.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "terrace/doctor/readings.h"

namespace terrace::doctor {
namespace {

namespace fs = std::filesystem;

Disk disk_of(const NodeView& view, const fs::path& path) {
  Disk disk{.path = path, .file_system = view.file_system(path)};
  if (const auto space = view.space_of(path)) {
    disk.bytes = static_cast<int64_t>(space->capacity);
    disk.free_bytes = static_cast<int64_t>(space->available);
  }
  return disk;
}

// Seconds since 1970.
struct Times {
  std::optional<double> first_use, first_write, last_write;
};

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The times of the files in a folder and in those below it, down to `depth`. A file is used when it is read or written.
Times times_in(const fs::path& folder, int depth) {
  Times times;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry.depth() >= depth) entry.disable_recursion_pending();
    struct stat status = {};
    if (::lstat(entry->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const double written = seconds(status.st_mtim), used = std::max(written, seconds(status.st_atim));
    times.first_use = std::min(times.first_use.value_or(used), used);
    times.first_write = std::min(times.first_write.value_or(written), written);
    times.last_write = std::max(times.last_write.value_or(written), written);
  }
  return times;
}

// The newest of the folders step_NNNNNNNN, which are named by their step.
std::string newest_checkpoint(const NodeView& view, const fs::path& folder) {
  std::string newest;
  for (const std::string& name : view.names(folder)) {
    if (name.starts_with("step_") && name.find('.') == std::string::npos) newest = std::max(newest, name);
  }
  return newest;
}

void read_run_folder(const NodeView& view, const fs::path& folder, Readings& readings) {
  readings.run_folder = disk_of(view, folder);
  const double now = std::chrono::duration<double>(view.now.time_since_epoch()).count();
  if (const Times times = times_in(view.at(folder), 1); times.first_use) {
    readings.oldest_days = std::max(0.0, now - *times.first_use) / 86400;
  }
  const std::string newest = newest_checkpoint(view, folder);
  if (newest.empty()) return;
  if (const Times times = times_in(view.at(folder / newest), 2); times.first_write) {
    readings.save_seconds = *times.last_write - *times.first_write;
  }
}

}  // namespace

void read_disks(const NodeView& view, const ReadOptions& options, Readings& readings) {
  if (!options.run_folder.empty()) {
    std::error_code error;
    const fs::path absolute = fs::absolute(options.run_folder, error);
    read_run_folder(view, error ? options.run_folder : absolute, readings);
  }
  const std::string user = view.variable("USER").value_or("");
  const fs::path own = fs::path("/mnt/bb") / user;
  if (!user.empty() && view.exists(own)) readings.node_disk = disk_of(view, own);
  const fs::path shared = "/dev/shm";
  if (view.exists(shared)) readings.shared_memory = disk_of(view, shared);
  if (const auto bytes = view.memory_disk_bytes(shared)) {
    readings.shared_memory.path = shared;
    readings.shared_memory.bytes = *bytes;
  }
  const std::string home = view.variable("HOME").value_or("");
  if (!home.empty()) readings.home = disk_of(view, home);
  for (const char* name : {"MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR"}) {
    if (const auto path = view.variable(name)) readings.caches[name] = disk_of(view, *path);
  }
}

}  // namespace terrace::doctor
