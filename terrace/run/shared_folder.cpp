// Makes a file on the first rank and looks for it on every rank.
#include "terrace/run/shared_folder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/mesh/rank_list.h"
#include "terrace/train/agreement.h"

namespace terrace::run {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

bool appears(const fs::path& path, double patience_seconds) {
  std::error_code ignored;
  const auto end = Clock::now() + std::chrono::duration<double>(patience_seconds);
  while (!fs::exists(path, ignored)) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

void check_shared_folder(comm::Comm& all, const fs::path& folder, double patience_seconds) {
  if (all.size() == 1) return;
  // Each start uses a new name, so that a file left by an earlier start does not count.
  const std::string name = train::broadcast_result(all, [&] {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    std::string text = fmt::format(".start_{}_{}", ::getpid(), now);
    write_text_atomically(folder / text, "");
    return text;
  });
  const int64_t own = appears(folder / name, patience_seconds) ? 1 : 0;
  std::vector<int64_t> seen(static_cast<size_t>(all.size()));
  all.all_gather(&own, seen.data(), 1, comm::Type::int64, {.what = "shared folder"}).wait();
  if (all.member() == 0) fs::remove(folder / name);
  std::vector<int64_t> without_file;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] == 0) without_file.push_back(all.group().ranks[i]);
  }
  if (without_file.empty()) return;
  if (all.member() != 0) throw train::Refusal("");
  throw train::Refusal(fmt::format(
      "checkpoint.folder = \"{}\" is another folder for {} than for rank 0: a file made there by rank 0 was not seen "
      "within {:.0f} s. Name a folder on a file system that all machines share, and start all ranks in the same "
      "working "
      "folder",
      folder.string(), mesh::rank_list(without_file), patience_seconds));
}

}  // namespace terrace::run
