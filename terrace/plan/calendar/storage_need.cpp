// Counts the bytes that ranks read in a step, and divides them by the rates of the storage.
#include "terrace/plan/calendar/storage_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/base/text/units.h"
#include "terrace/config/domain.h"
#include "terrace/config/family.h"
#include "terrace/config/key.h"
#include "terrace/schedule/description.h"

namespace terrace::plan {
namespace {

double share_of(double bytes, double seconds, double bandwidth) {
  return bandwidth > 0 && seconds > 0 ? bytes / seconds / bandwidth : 0;
}

// Whether data.stage names a folder; a family without the key stages nothing.
bool is_staged(const config::Config& config) {
  const std::vector<config::Key> keys = config::keys_of(config.family);
  const config::Key* key = config::find_key(keys, "data.stage");
  return key != nullptr && key->write(config) != config::toml_text(std::string_view());
}

double seconds_of(double bytes, double bandwidth) { return bandwidth > 0 ? bytes / bandwidth : 0; }

}  // namespace

StepReads step_reads(const PlannedRun& run) {
  const schedule::SampleBytes sample = schedule::description_of(run.config).sample_bytes(run.config);
  const int64_t first = run.placement.stage_of(0), last = run.placement.stage_of(run.placement.virtual_stages() - 1);
  const auto of_stage = [&](int64_t stage) {
    if (first == last) return stage == first ? sample.both : 0;
    return stage == first ? sample.inputs : stage == last ? sample.loss : 0;
  };
  const auto samples = static_cast<double>(run.config.train.global_batch) / static_cast<double>(run.mesh.size("data"));
  const int64_t ranks = run.mesh.size(), of_node = std::min(ranks, run.mesh.topology().ranks_per_node);
  StepReads reads;
  for (int64_t begin = 0; begin < ranks; begin += of_node) {
    std::vector<std::pair<int64_t, int64_t>> readers;  // data-parallel rank and stage
    for (int64_t rank = begin; rank < std::min(ranks, begin + of_node); ++rank) {
      readers.emplace_back(run.mesh.coordinate(rank, "data"), run.mesh.coordinate(rank, "pipeline"));
    }
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    double node = 0;
    for (const auto& [data_rank, stage] : readers) node += samples * of_stage(stage);
    reads.all += node;
    reads.node = std::max(reads.node, node);
  }
  return reads;
}

StorageNeed storage_need(const PlannedRun& run, const RunCost& cost, double step_seconds, const Target& target) {
  const machine::Storage& storage = target.machine.storage;
  StorageNeed need{.reads = step_reads(run),
                   .is_staged = is_staged(run.config),
                   .step_seconds = step_seconds,
                   .checkpoint_bytes = cost.checkpoint.bytes};
  need.read_seconds = std::max(seconds_of(need.reads.all, storage.total_bandwidth),
                               seconds_of(need.reads.node, storage.node_bandwidth));
  need.read_share = need.read_seconds / step_seconds;
  need.checkpoint_interval_seconds = cost.course.saves > 0 ? cost.checkpoint_interval_seconds : 0;
  const double of_node = need.checkpoint_bytes / static_cast<double>(target.nodes());
  need.write_share =
      std::max(share_of(need.checkpoint_bytes, need.checkpoint_interval_seconds, storage.total_bandwidth),
               share_of(of_node, need.checkpoint_interval_seconds, storage.node_bandwidth));
  return need;
}

Json json_of(const StorageNeed& need) {
  return {{"step_read_bytes", need.reads.all},        {"node_read_bytes", need.reads.node},
          {"read_seconds", need.read_seconds},        {"read_share", need.read_share},
          {"write_share", need.write_share},          {"staged", need.is_staged},
          {"exceeds_storage", need.exceeds_storage()}};
}

namespace {

// Whether the rate of one node is what limits reading.
bool node_limits(const StorageNeed& need, const machine::Storage& storage) {
  return seconds_of(need.reads.node, storage.node_bandwidth) >= seconds_of(need.reads.all, storage.total_bandwidth);
}

std::string share_text(double share) {
  const double percent = 100 * share;
  return percent < 0.1 ? "less than 0.1%" : fmt::format("{:.{}f}%", percent, percent < 9.95 ? 1 : 0);
}

}  // namespace

std::string text_of(const StorageNeed& need, const Target& target) {
  const machine::Storage& storage = target.machine.storage;
  if (need.reads.all == 0) return "";
  std::string text = fmt::format("    data of a step: {}", format_bytes(need.reads.all));
  if (need.reads.node < need.reads.all) text += fmt::format(", at most {} a node", format_bytes(need.reads.node));
  if (need.is_staged) text += ", from copies on its own disk once they are made (data.stage)";
  if (need.read_seconds > 0) text += fmt::format("; {} of the storage's rate", share_text(need.read_share));
  if (need.read_seconds > 0 && need.write_share > 0) {
    text += fmt::format(", and checkpoints {}", share_text(need.write_share));
  }
  text += "\n";
  if (!need.exceeds_storage()) return text;
  const bool one = node_limits(need, storage);
  return text + fmt::format(
                    "warning: the storage gives the data of a step in {} ({} {} at {}/s, [storage] {}), and the step "
                    "takes {}: steps wait for data; keep them on a disk of each node (data.stage, docs/staging.md), "
                    "or read less in a step (a smaller train.global_batch)\n",
                    format_seconds(need.read_seconds), format_bytes(one ? need.reads.node : need.reads.all),
                    one ? "for each node" : "for all nodes",
                    format_bytes(one ? storage.node_bandwidth : storage.total_bandwidth),
                    one ? "node_bandwidth" : "total_bandwidth", format_seconds(need.step_seconds));
}

}  // namespace terrace::plan
