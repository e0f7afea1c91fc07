// Divides a step among ranks, and reports sizes that are not divisible among them.
#include "terrace/schedule/rank_share.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"
#include "terrace/config/family.h"
#include "terrace/config/phases.h"
#include "terrace/mesh/shards.h"
#include "terrace/schedule/description.h"

namespace terrace::schedule {
namespace {

std::string not_divisible(const config::Config& config, const char* key, int64_t samples, int64_t ranks) {
  if (samples % ranks == 0) return "";
  const int64_t below = samples / ranks * ranks;
  int64_t fitting = ranks;
  while (samples % fitting != 0) --fitting;
  return fmt::format("\n  train.{} = {} {} are not divisible among {} data-parallel ranks; use {}{}, or {} {}", key,
                     samples, config.family->samples, ranks, below > 0 ? fmt::format("{} or ", below) : "",
                     below + ranks, fitting, plural(fitting, "rank"));
}

int64_t rounded_up_share(const config::TrainConfig& train, int64_t data_ranks) {
  return (train.global_batch + data_ranks - 1) / data_ranks;
}

// Samples of average size that fit the budget, at least 1 and at most `most`.
int64_t fitting_samples(const config::Config& config, int64_t most) {
  const SampleSizes sizes = description_of(config).sample_sizes(config);
  int64_t fitting = most;
  for (const auto& [name, limit] : config.train.micro_batch_sizes) {
    const double average = sizes.average.at(name), budget = static_cast<double>(limit);
    if (budget < average * static_cast<double>(fitting)) fitting = static_cast<int64_t>(budget / average);
  }
  return std::max<int64_t>(1, fitting);
}

}  // namespace

std::string cuts_of_samples(const config::LayoutConfig& layout) {
  return fmt::format("layout.tensor = {}{} and pipeline = {}", layout.tensor,
                     layout.context > 1 ? fmt::format(", context = {}", layout.context) : "", layout.pipeline);
}

mesh::Mesh mesh_of(const config::LayoutConfig& layout, int64_t ranks, int64_t ranks_per_node) {
  const int64_t node = layout.ranks_per_node > 0 ? layout.ranks_per_node : ranks_per_node;
  const int64_t model = layout.ranks_of_samples();
  if (ranks % model != 0) {
    const int64_t above = (ranks / model + 1) * model;
    throw UserError::of("{} cut the model over {} ranks, which do not divide {}; start {}{} ranks",
                        cuts_of_samples(layout), model, ranks,
                        ranks > model ? fmt::format("{} or ", above - model) : "", above);
  }
  const auto size_of = [&](const std::string& axis) {
    return axis == "data" ? ranks / model : axis == "tensor" ? layout.tensor : layout.pipeline;
  };
  std::vector<mesh::Axis> axes;
  for (const std::string& name : layout.order) {
    axes.push_back({.name = name, .size = size_of(name)});
    // Context ranks are members of the data-parallel groups (mesh::shard_axes).
    if (name == "data" && layout.context > 1) axes.push_back({.name = "context", .size = layout.context});
  }
  return {ranks, std::move(axes), {.ranks_per_pair = layout.ranks_per_pair, .ranks_per_node = node}};
}

int64_t micro_batch_of(const config::Config& config, int64_t data_ranks) {
  const config::TrainConfig& train = config.train;
  if (!config.family->settings.equal_shares) {
    const int64_t share = rounded_up_share(train, data_ranks);
    if (!train.micro_batch_sizes.empty()) return fitting_samples(config, share);
    return train.micro_batch == 0 ? share : std::min(share, train.micro_batch);
  }
  std::string problems = not_divisible(config, "global_batch", train.global_batch, data_ranks) +
                         not_divisible(config, "ramp_start", train.ramp_start, data_ranks) +
                         not_divisible(config, "ramp_increment", train.ramp_increment, data_ranks);
  const int64_t share = train.global_batch / data_ranks;
  if (train.micro_batch == 0 && problems.empty()) return share;
  if (problems.empty() && share % train.micro_batch != 0) {
    problems = fmt::format(
        "\n  train.micro_batch = {} does not divide the {} {} of each of {} data-parallel ranks; use {}, or "
        "global_batch {}",
        train.micro_batch, share, config.family->samples, data_ranks, std::gcd(share, train.micro_batch),
        std::lcm(share, train.micro_batch) * data_ranks);
  }
  if (problems.empty()) return train.micro_batch;
  throw UserError("a step does not fit the ranks:" + problems);
}

void check_ranks(const config::Config& config, int64_t ranks, int64_t here) {
  const mesh::Mesh mesh = mesh_of(config.layout, ranks, here);
  const int64_t data_ranks = mesh.size("data");
  std::string problems;
  for (size_t phase = 0; phase <= config.phases.size(); ++phase) {
    try {
      const config::Config in_phase = config::in_phase(config, phase);
      micro_batch_of(in_phase, data_ranks);
      check_one_micro_batch(in_phase, data_ranks);
    } catch (const UserError& error) {
      const bool has_name = phase > 0;
      problems += fmt::format("{}{}{}", problems.empty() ? "" : "\n",
                              has_name ? config::phase_name(config, phase) + ": " : "", error.what());
    }
  }
  if (!problems.empty()) throw UserError(problems);
  mesh::shard_sizes(config.layout, mesh);
}

void check_one_micro_batch(const config::Config& config, int64_t data_ranks) {
  const Description* description = config.family->description;
  const std::string why = description == nullptr ? "" : description->why_one_micro_batch(config);
  const int64_t micro_batches = why.empty() ? 1 : pipeline_of(config, data_ranks).micro_batches;
  if (micro_batches == 1) return;
  const int64_t micro_batch = micro_batch_of(config, data_ranks), share = rounded_up_share(config.train, data_ranks);
  throw UserError::of(
      "{}, and train.global_batch = {} {} on {} are {} micro-batches of train.micro_batch = {} on each; use "
      "micro_batch = {}, which is all of a rank's, or {} data-parallel ranks",
      why, config.train.global_batch, config.family->samples, counted(data_ranks, "data-parallel rank"), micro_batches,
      micro_batch, share, (config.train.global_batch + micro_batch - 1) / micro_batch);
}

MicroBatchSizes micro_batch_sizes_of(const config::Config& config, int64_t data_ranks) {
  const SampleSizes sample = description_of(config).sample_sizes(config);
  const int64_t samples = micro_batch_of(config, data_ranks), share = rounded_up_share(config.train, data_ranks);
  const int64_t number = data_ranks * pipeline_of(config, data_ranks).micro_batches;
  const double mean = static_cast<double>(config.train.global_batch) / static_cast<double>(number);
  MicroBatchSizes sizes{
      .average = {.samples = (config.train.global_batch + number - 1) / number, .sizes = average_sizes(sample, mean)},
      .largest = {.samples = samples}};
  for (const auto& [name, largest] : sample.largest) {
    const auto budget = config.train.micro_batch_sizes.find(name);
    sizes.largest.sizes[name] =
        budget == config.train.micro_batch_sizes.end() ? samples * largest : std::min(budget->second, share * largest);
  }
  return sizes;
}

Pipeline pipeline_of(const config::Config& config, int64_t data_ranks) {
  const int64_t micro_batch = micro_batch_of(config, data_ranks);
  return pipeline_of(config.layout, (rounded_up_share(config.train, data_ranks) + micro_batch - 1) / micro_batch);
}

}  // namespace terrace::schedule
