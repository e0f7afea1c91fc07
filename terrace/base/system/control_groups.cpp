// Reads the files of the groups from the root to the process's own: each of them can have a limit.
#include "terrace/base/system/control_groups.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace terrace {
namespace {

namespace fs = std::filesystem;

// Folders of the control groups that limit this process, from the root down. In version 1 every kind of limit ("cpu",
// "memory") has folders of its own.
struct GroupFolders {
  std::vector<fs::path> version_1, version_2;
};

// A container may see its own group as the root, so folders of the path need not exist.
std::vector<fs::path> folders_to(const fs::path& root, const fs::path& path) {
  std::vector<fs::path> folders = {root};
  for (const fs::path& part : path.relative_path()) folders.push_back(folders.back() / part);
  return folders;
}

// Lines are "4:memory:/job" in version 1 and "0::/job" in version 2.
GroupFolders folders_of(const std::string& controller, const fs::path& system) {
  const fs::path root = system / "sys/fs/cgroup";
  GroupFolders folders{.version_1 = folders_to(root / controller, {}), .version_2 = folders_to(root, {})};
  std::ifstream groups(system / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",",
                      path = line.substr(second + 1);
    if (controllers == ",,") folders.version_2 = folders_to(root, path);
    if (controllers.find("," + controller + ",") != std::string::npos) {
      folders.version_1 = folders_to(root / controller, path);
    }
  }
  return folders;
}

// Returns no number for "max", as for a file that does not exist.
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream text(file);
  int64_t number = 0;
  if (text >> number) return number;
  return std::nullopt;
}

// The number after the name in lines such as "inactive_file 4096"; 0 if there is none.
int64_t count_in(const fs::path& file, const std::string& name) {
  std::ifstream text(file);
  int64_t count = 0;
  for (std::string word; text >> word >> count;) {
    if (word == name) return count;
  }
  return 0;
}

double ratio(double quota, double period) { return quota > 0 && period > 0 ? quota / period : 0; }

// "200000 100000" or "max 100000": microseconds of a period.
double quota_in(const fs::path& file) {
  std::ifstream text(file);
  double quota = 0, period = 0;
  return text >> quota >> period ? ratio(quota, period) : 0;
}

double smaller_limit(double a, double b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

double core_quota(const fs::path& system) {
  const GroupFolders folders = folders_of("cpu", system);
  double quota = 0;
  for (const fs::path& folder : folders.version_2) quota = smaller_limit(quota, quota_in(folder / "cpu.max"));
  for (const fs::path& folder : folders.version_1) {
    const auto own = number_in(folder / "cpu.cfs_quota_us"), period = number_in(folder / "cpu.cfs_period_us");
    if (own && period) quota = smaller_limit(quota, ratio(static_cast<double>(*own), static_cast<double>(*period)));
  }
  return quota;
}

std::optional<int64_t> memory_under_limits(const fs::path& system) {
  const GroupFolders folders = folders_of("memory", system);
  std::optional<int64_t> left;
  const auto add = [&](const fs::path& folder, const char* limit_file, const char* usage_file, const char* cache) {
    // Version 1 writes a number near 2^63 where there is no limit.
    constexpr int64_t no_limit = int64_t{1} << 60;
    const auto limit = number_in(folder / limit_file), used = number_in(folder / usage_file);
    if (!limit || !used || *limit >= no_limit) return;
    const int64_t here = std::max<int64_t>(0, *limit - *used + count_in(folder / "memory.stat", cache));
    left = std::min(left.value_or(here), here);
  };
  for (const fs::path& folder : folders.version_2) add(folder, "memory.max", "memory.current", "inactive_file");
  for (const fs::path& folder : folders.version_1) {
    add(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
  }
  return left;
}

}  // namespace terrace
