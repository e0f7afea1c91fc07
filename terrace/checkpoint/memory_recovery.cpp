// Lists the copies of all nodes on the first rank, which chooses the copy and who copies what.
#include "terrace/checkpoint/memory_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/memory_folder.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/make_checkpoint.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/memory_copies.h"
#include "terrace/checkpoint/written_files.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

// The part of a copy that the folder holds. A folder that cannot be read counts as none.
std::optional<FoundCopy> look_at(const fs::path& folder) {
  try {
    const std::string text = read_text(folder / manifest_name);
    const Manifest manifest = parse_manifest(text, (folder / manifest_name).string());
    const std::vector<FileRecord> files = manifest.files();
    FoundCopy copy{.folder = folder.string(),
                   .step = manifest.step,
                   .manifest = checksum(std::as_bytes(std::span(text))),
                   .files_of_all = std::ssize(files)};
    for (const FileRecord& file : files) {
      std::error_code error;
      if (fs::file_size(folder / file.name, error) == file.bytes && !error) copy.files.push_back(file.name);
    }
    return copy;
  } catch (const std::exception& error) {
    log_warning("a copy in memory cannot be used: {}", error.what());
    return std::nullopt;
  }
}

// The copies of one start of the run on this host.
std::vector<FoundCopy> copies_on(const fs::path& run_in_memory, const std::string& host, const std::string& start) {
  std::vector<FoundCopy> found;
  std::error_code error;
  for (fs::directory_iterator node(run_in_memory, error), end; !error && node != end; node.increment(error)) {
    if (!is_node_of(node->path().filename().string(), host)) continue;
    for (const fs::path& step : list(node->path() / start)) {
      if (std::optional<FoundCopy> copy = look_at(step)) found.push_back(std::move(*copy));
    }
  }
  return found;
}

std::string text_of(const std::vector<FoundCopy>& copies) {
  Json list = Json::array();
  for (const FoundCopy& copy : copies) {
    list.push_back({{"folder", copy.folder},
                    {"step", copy.step},
                    {"manifest", copy.manifest},
                    {"files_of_all", copy.files_of_all},
                    {"files", copy.files}});
  }
  return list.dump();
}

std::vector<FoundCopy> parse_copies(const std::vector<std::string>& texts) {
  std::vector<FoundCopy> copies;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    for (const Json& copy : Json::parse(texts[rank])) {
      copies.push_back({.rank = static_cast<int64_t>(rank),
                        .folder = copy.at("folder").get<std::string>(),
                        .step = copy.at("step").get<int64_t>(),
                        .manifest = copy.at("manifest").get<std::string>(),
                        .files_of_all = copy.at("files_of_all").get<int64_t>(),
                        .files = copy.at("files").get<std::vector<std::string>>()});
    }
  }
  return copies;
}

// The newest copies that are not whole, for a warning.
std::string missing_text(const std::vector<FoundCopy>& found, int64_t after) {
  const auto newest = std::ranges::max_element(found, {}, &FoundCopy::step);
  if (newest == found.end() || newest->step <= after) return "";
  std::set<std::string> files;
  for (const FoundCopy& copy : found) {
    if (copy.step == newest->step && copy.manifest == newest->manifest)
      files.insert(copy.files.begin(), copy.files.end());
  }
  return fmt::format(
      "the copy of step {} in the memory of the nodes is not whole: no node that is left has {} of its {} files",
      newest->step, newest->files_of_all - std::ssize(files), newest->files_of_all);
}

// This rank's part of the files, and on the first rank the records of the configuration and the attached files, which
// the manifest takes from there.
WrittenFiles copy_files(const Manifest& manifest, const Json& from, const SavingRanks& ranks, const fs::path& to) {
  const auto take = [&](const FileRecord& file) {
    const Json& source = from.at(file.name);
    if (source.at(0).get<int64_t>() != ranks.rank()) return false;
    const fs::path folder = source.at(1).get<std::string>();
    const std::string found = copy_durably(folder / file.name, to / file.name);
    if (found == file.checksum) return true;
    throw UserError::of("{} is damaged: its checksum is {} and should be {}", (folder / file.name).string(), found,
                        file.checksum);
  };
  WrittenFiles written;
  take(manifest.config);
  for (const auto& [role, file] : manifest.attached) take(file);
  if (ranks.is_first()) {
    written.config = manifest.config;
    written.attached = manifest.attached;
  }
  for (const CollectionRecord& collection : manifest.collections) {
    WrittenCollection& own = written.collections.emplace_back(WrittenCollection{{collection.name, {}}, {}});
    for (const TensorFile& file : collection.files) {
      if (take(file.file)) own.record.files.push_back(file);
    }
  }
  return written;
}

// The choice as the first rank tells it to all.
Json plan_json(const RecoveryPlan& plan) {
  Json from = Json::object();
  for (const auto& [file, copy] : plan.from) from[file] = {copy->rank, copy->folder};
  const FoundCopy& any = *plan.from.begin()->second;
  return {{"from", std::move(from)}, {"rank", any.rank}, {"folder", any.folder}};
}

Json chosen_on_first(const std::vector<FoundCopy>& found, const fs::path& run_folder) {
  const std::vector<fs::path> checkpoints = list(run_folder);
  const int64_t after = checkpoints.empty() ? 0 : step_of(checkpoints.back()).value();
  const std::optional<RecoveryPlan> plan = newest_whole(found, after);
  if (plan) return plan_json(*plan);
  if (const std::string missing = missing_text(found, after); !missing.empty()) log_warning("{}", missing);
  return {};
}

// The copies that this rank reports: the first rank of a host does so for all of them.
std::vector<FoundCopy> reported_copies(const fs::path& memory, const fs::path& run_folder, const std::string& host,
                                       const SavingRanks& ranks) {
  std::string start;
  if (ranks.is_first() && fs::exists(run_folder / memory_start_name)) start = read_text(run_folder / memory_start_name);
  start = ranks.broadcast_text(std::move(start));
  const std::vector<std::string> hosts = ranks.all_texts(host);
  if (start.empty() || std::ranges::find(hosts, host) - hosts.begin() != ranks.rank()) return {};
  return copies_on(memory_of(memory, run_folder), host, start);
}

}  // namespace

std::optional<RecoveryPlan> newest_whole(const std::vector<FoundCopy>& found, int64_t after) {
  std::map<std::pair<int64_t, std::string>, std::vector<const FoundCopy*>> by_copy;
  for (const FoundCopy& one : found) {
    if (one.step > after) by_copy[{one.step, one.manifest}].push_back(&one);
  }
  for (auto copy = by_copy.rbegin(); copy != by_copy.rend(); ++copy) {
    std::map<std::string, std::vector<const FoundCopy*>> holders;
    for (const FoundCopy* one : copy->second) {
      for (const std::string& file : one->files) holders[file].push_back(one);
    }
    if (std::ssize(holders) != copy->second.front()->files_of_all) continue;
    RecoveryPlan plan{.step = copy->first.first};
    std::map<const FoundCopy*, int64_t> taken;
    for (const auto& [file, folders] : holders) {
      const FoundCopy* least = *std::ranges::min_element(folders, {}, [&](const FoundCopy* one) { return taken[one]; });
      ++taken[least];
      plan.from[file] = least;
    }
    return plan;
  }
  return std::nullopt;
}

std::optional<int64_t> recover_from_memory(const fs::path& memory, const fs::path& run_folder, const std::string& host,
                                           const Retention& retention, const SavingRanks& ranks) {
  const auto began = std::chrono::steady_clock::now();
  const std::vector<std::string> texts = ranks.gather_texts(text_of(reported_copies(memory, run_folder, host, ranks)));
  std::string text;
  if (ranks.is_first()) text = chosen_on_first(parse_copies(texts), run_folder).dump();
  const Json chosen = Json::parse(ranks.broadcast_text(std::move(text)));
  if (chosen.is_null()) return std::nullopt;
  try {
    const auto owner = chosen.at("rank").get<int64_t>();
    std::string own;
    std::optional<UserError> failure;
    try {
      if (ranks.rank() == owner) own = read_text(fs::path(chosen.at("folder").get<std::string>()) / manifest_name);
    } catch (const std::exception& error) {
      failure.emplace(error.what());
    }
    ranks.throw_if_any_failed(failure);
    const Manifest manifest = parse_manifest(ranks.broadcast_text(std::move(own), owner), manifest_name);
    uint64_t bytes = 0;
    for (const FileRecord& file : manifest.files()) {
      if (chosen.at("from").at(file.name).at(0).get<int64_t>() == ranks.rank()) bytes += file.bytes;
    }
    make_checkpoint({.folder = run_folder,
                     .step = manifest.step,
                     .trainer = manifest.trainer,
                     .needed_bytes = static_cast<int64_t>(bytes),
                     .retention = retention,
                     .ranks = ranks},
                    [&](const fs::path& partial) { return copy_files(manifest, chosen.at("from"), ranks, partial); });
    if (ranks.is_first()) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
      log_info("made {} out of the copies in the memory of the nodes in {}",
               (run_folder / step_name(manifest.step)).string(), format_seconds(seconds.count()));
    }
    return manifest.step;
  } catch (const UserError& error) {
    // Damaged copies are of no use any more; others are, once the disk takes them.
    if (error.code != ExitCode::bad_input) throw;
    if (ranks.is_first()) log_warning("the copies in the memory of the nodes were not used: {}", error.what());
    return std::nullopt;
  }
}

}  // namespace terrace::checkpoint
