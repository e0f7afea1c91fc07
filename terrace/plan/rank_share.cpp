// Shares of ranks, and sizes that are not divisible among them.
#include "terrace/plan/rank_share.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/mesh/shards.h"

namespace terrace::plan {
namespace {

std::string not_divisible(const char* key, int64_t sequences, int64_t ranks) {
  if (sequences % ranks == 0) return "";
  const int64_t below = sequences / ranks * ranks;
  int64_t fitting = ranks;
  while (sequences % fitting != 0) --fitting;
  return fmt::format(
      "\n  train.{} = {} sequences are not divisible among {} data-parallel ranks; use {}{}, or {} rank{}", key,
      sequences, ranks, below > 0 ? fmt::format("{} or ", below) : "", below + ranks, fitting, fitting == 1 ? "" : "s");
}

}  // namespace

mesh::Mesh mesh_of(const config::LayoutConfig& layout, int64_t ranks, int64_t ranks_per_node) {
  const int64_t node = layout.ranks_per_node > 0 ? layout.ranks_per_node : ranks_per_node;
  const int64_t model = layout.tensor * layout.pipeline;  // ranks of one copy of the model
  if (ranks % model != 0) {
    const int64_t above = (ranks / model + 1) * model;
    throw UserError::of(
        "layout.tensor = {} and pipeline = {} cut the model over {} ranks, which do not divide {}; start {}{} ranks",
        layout.tensor, layout.pipeline, model, ranks, ranks > model ? fmt::format("{} or ", above - model) : "", above);
  }
  const auto size_of = [&](const std::string& axis) {
    return axis == "data" ? ranks / model : axis == "tensor" ? layout.tensor : layout.pipeline;
  };
  std::vector<mesh::Axis> axes;
  for (const std::string& name : layout.order) axes.push_back({.name = name, .size = size_of(name)});
  return {ranks, std::move(axes), {.ranks_per_pair = layout.ranks_per_pair, .ranks_per_node = node}};
}

int64_t micro_batch_of(const config::TrainConfig& config, int64_t data_ranks) {
  std::string problems = not_divisible("global_batch", config.global_batch, data_ranks) +
                         not_divisible("ramp_start", config.ramp_start, data_ranks) +
                         not_divisible("ramp_increment", config.ramp_increment, data_ranks);
  const int64_t share = config.global_batch / data_ranks;
  if (config.micro_batch == 0 && problems.empty()) return share;
  if (problems.empty() && share % config.micro_batch != 0) {
    problems = fmt::format(
        "\n  train.micro_batch = {} does not divide the {} sequences of each of {} data-parallel ranks; use {}, or "
        "global_batch {}",
        config.micro_batch, share, data_ranks, std::gcd(share, config.micro_batch),
        std::lcm(share, config.micro_batch) * data_ranks);
  }
  if (problems.empty()) return config.micro_batch;
  throw UserError("a step does not fit the ranks:" + problems);
}

void check_ranks(const config::Config& config, int64_t ranks, int64_t here) {
  const mesh::Mesh mesh = mesh_of(config.layout, ranks, here);
  micro_batch_of(config.train, mesh.size("data"));
  mesh::shard_sizes(config.layout, mesh);
}

schedule::Pipeline pipeline_of(const config::Config& config, int64_t data_ranks) {
  const int64_t sequences = config.train.global_batch / data_ranks;
  return schedule::pipeline_of(config.layout, sequences / micro_batch_of(config.train, data_ranks));
}

}  // namespace terrace::plan
