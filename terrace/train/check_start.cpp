// Checks the files, folders and memory that a run needs, and reports all problems with files and folders in one
// message.
#include "terrace/train/check_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/log.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/mesh/shards.h"
#include "terrace/models/family.h"
#include "terrace/observe/memory.h"
#include "terrace/plan/rank_share.h"
#include "terrace/train/device.h"

namespace terrace::train {
namespace {

namespace fs = std::filesystem;
using Problems = std::vector<std::string>;

void check_initial_weights(const std::string& path, Problems& problems) {
  if (path.empty()) return;
  try {
    checkpoint::resolve(path);
  } catch (const UserError& error) {
    problems.push_back(fmt::format("train.initial_weights = \"{}\": {}", path, error.what()));
  }
}

// `folder` need not exist, but its nearest existing ancestor must be writable so that it can be created.
void check_folder(const char* key, const std::string& folder, Problems& problems) {
  fs::path existing = fs::absolute(folder);
  while (!fs::exists(existing)) existing = existing.parent_path();
  if (fs::is_directory(existing) && ::access(existing.c_str(), W_OK | X_OK) == 0) return;
  problems.push_back(
      fmt::format("{} = \"{}\": {} is not a writable folder; name another folder", key, folder, existing.string()));
}

}  // namespace

void check_files(const config::Config& config) {
  Problems problems = models::family_of(config).problems_with_files(config);
  check_initial_weights(config.train.initial_weights, problems);
  check_folder("checkpoint.folder", config.checkpoint.folder, problems);
  if (!config.checkpoint.staging.empty()) check_folder("checkpoint.staging", config.checkpoint.staging, problems);
  if (problems.empty()) return;
  throw UserError::of("{} problem{} with what the configuration names:\n  {}", problems.size(),
                      problems.size() == 1 ? "" : "s", fmt::join(problems, "\n  "));
}

void warn_of_idle_keys(const config::Config& config, int64_t ranks, int64_t here) {
  const mesh::Mesh mesh = plan::mesh_of(config.layout, ranks, here);
  const mesh::ShardSizes sizes = mesh::shard_sizes(config.layout, mesh);
  const std::vector<std::string> idle = config::idle_keys(
      config, {.all = ranks, .data = sizes.ranks, .weights = sizes.weights, .optimizer = sizes.optimizer});
  if (!idle.empty()) log_warning("keys without effect in this run:\n  {}", fmt::join(idle, "\n  "));
}

plan::MemoryNeed check_memory(const config::Config& config, int64_t ranks, int64_t here, const at::Device& device) {
  plan::AvailableMemory available{.machine = static_cast<double>(observe::available_bytes())};
  if (device.is_cuda()) available.gpu = static_cast<double>(available_bytes(device));
  const plan::MemoryNeed need = plan::least_memory(config, ranks, here, available.ranks_together(here));
  const std::string refusal = plan::memory_refusal(config, ranks, here, need, available);
  if (!refusal.empty() && config.train.check_memory) throw UserError(refusal, ExitCode::infeasible);
  if (!refusal.empty()) log_warning("{}", refusal);
  return need;
}

}  // namespace terrace::train
