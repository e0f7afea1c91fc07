// Finds the tiers that groups of tensor ranks leave, and predicts smaller groups.
#include "terrace/plan/time/tensor_reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/units.h"
#include "terrace/config/divisors.h"
#include "terrace/plan/report/plan_report.h"
#include "terrace/plan/time/least_step.h"
#include "terrace/plan/time/variation.h"

namespace terrace::plan {
namespace {

using machine::Tier;

bool leaves(const std::vector<int64_t>& ranks, const Tier& tier) {
  return std::ranges::any_of(ranks, [&](int64_t rank) { return rank / tier.devices != ranks.front() / tier.devices; });
}

bool some_group_leaves(const mesh::Mesh& mesh, const Tier& tier) {
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    if (mesh.coordinate(rank, "tensor") == 0 && leaves(mesh.group(rank, "tensor").ranks, tier)) return true;
  }
  return false;
}

// The tiers up to the node, or the innermost one, from the outermost to the innermost.
std::vector<Tier> tiers_up_to_domain(const machine::Machine& machine) {
  std::vector<Tier> tiers;
  const auto node = std::ranges::find(machine.tiers, "node", &Tier::name);
  const auto end = node == machine.tiers.end() ? machine.tiers.begin() + 1 : node + 1;
  for (auto tier = machine.tiers.begin(); tier != end; ++tier) tiers.insert(tiers.begin(), *tier);
  return tiers;
}

std::optional<config::Config> with_sizes(const config::Config& config, int64_t tensor, int64_t stages_factor) {
  config::Config smaller = config;
  smaller.layout.tensor = tensor;
  if (tensor == 1) smaller.layout.sequence_parallel = false;
  smaller.layout.pipeline *= stages_factor;
  if (stages_factor > 1) forget_stage_numbers(smaller.layout);
  if (!holds_rules(smaller)) return std::nullopt;
  return smaller;
}

// Whether the layout fits the devices and its groups stay in one unit of the tier.
bool stays_inside(const config::Config& config, const Target& target, const Tier& tier) {
  try {
    return !some_group_leaves(planned_run(config, target).mesh, tier);
  } catch (const UserError&) {
    return false;
  }
}

// The largest size that stays inside in some layout, with the fastest of its layouts that fit the memory.
SmallerGroups smaller_groups(const config::Config& config, const Target& target, const Tier& tier,
                             double step_seconds) {
  std::vector<int64_t> sizes = config::divisors_up_to(config.layout.tensor, config.layout.tensor / 2);
  std::ranges::reverse(sizes);
  for (const int64_t tensor : sizes) {
    std::vector<Variation> inside;
    const int64_t left_over = config.layout.tensor / tensor;
    for (const int64_t stages_factor : config::divisors_up_to(left_over, left_over)) {
      std::optional<config::Config> layout = with_sizes(config, tensor, stages_factor);
      if (!layout || !stays_inside(*layout, target, tier)) continue;
      inside.push_back({.settings = differences(config, *layout), .config = std::move(*layout)});
    }
    if (inside.empty()) continue;
    SmallerGroups groups{.tensor = tensor, .tier = tier.name};
    for (Change& fastest : fastest_of(std::move(inside), target, {.count = 1})) {
      fastest.gain = 1 - fastest.prediction.step_seconds / step_seconds;
      groups.fastest = std::move(fastest);
    }
    return groups;
  }
  return {.tensor = 1, .tier = tier.name};
}

}  // namespace

std::string TensorReach::warning() const {
  if (!leaves_domain) return "";
  std::string text =
      first_leaves_domain
          ? fmt::format("the groups of {} tensor ranks leave the {} ({} devices)", tensor, domain, domain_devices)
          : fmt::format(
                "some groups of {} tensor ranks leave the {} ({} devices), but not the first one, from which "
                "times are computed",
                tensor, domain, domain_devices);
  if (smaller.empty()) return text;
  const SmallerGroups& inside = smaller.front();
  if (!inside.fastest) {
    return fmt::format("{}; no layout with tensor {}, which stays inside, fits the memory", text, inside.tensor);
  }
  const double seconds = inside.fastest->prediction.step_seconds;
  if (step_seconds < seconds) {
    return fmt::format(
        "{}; by prediction the step is still shorter than with tensor {}, which stays inside: {} instead of {}", text,
        inside.tensor, format_seconds(step_seconds), format_seconds(seconds));
  }
  return fmt::format("{}: the step takes {:.2f} times as long as with tensor {}, which stays inside: {} instead of {}",
                     text, step_seconds / seconds, inside.tensor, format_seconds(step_seconds),
                     format_seconds(seconds));
}

bool tensor_leaves_domain(const mesh::Mesh& mesh, const machine::Machine& machine) {
  return !machine.tiers.empty() && some_group_leaves(mesh, tiers_up_to_domain(machine).front());
}

std::optional<TensorReach> tensor_reach(const config::Config& config, const Target& target,
                                        const Prediction& prediction) {
  if (config.layout.tensor == 1 || target.machine.tiers.empty()) return std::nullopt;
  const mesh::Mesh mesh = planned_run(config, target).mesh;
  const std::vector<Tier> tiers = tiers_up_to_domain(target.machine);
  TensorReach reach{.tensor = config.layout.tensor,
                    .step_seconds = prediction.step_seconds,
                    .items_per_second = prediction.items_per_second(),
                    .domain = tiers.front().name,
                    .domain_devices = tiers.front().devices,
                    .leaves_domain = some_group_leaves(mesh, tiers.front()),
                    .first_leaves_domain = leaves(mesh.group(0, "tensor").ranks, tiers.front())};
  for (const Tier& tier : tiers) {
    if (!some_group_leaves(mesh, tier)) continue;
    SmallerGroups groups = smaller_groups(config, target, tier, prediction.step_seconds);
    if (reach.smaller.empty() || reach.smaller.back().tensor != groups.tensor) {
      reach.smaller.push_back(std::move(groups));
    }
  }
  return reach;
}

std::string text_of(const SmallerGroups& groups, const TensorReach& reach) {
  if (!groups.fastest) return "no such layout fits the memory";
  const double seconds = groups.fastest->prediction.step_seconds;
  return fmt::format("step {}, {:.2f} times as fast: {}", format_seconds(seconds), reach.step_seconds / seconds,
                     options_of(*groups.fastest));
}

std::string text_of(const TensorReach& reach, const std::string& items) {
  if (reach.smaller.empty()) return "";
  std::string text = reach.leaves_domain ? fmt::format("warning: {}\n", reach.warning()) : "";
  text += fmt::format("tensor groups\n    {:<28}step {}, {:.4g} {}/s\n", fmt::format("tensor {}", reach.tensor),
                      format_seconds(reach.step_seconds), reach.items_per_second, items);
  for (const SmallerGroups& groups : reach.smaller) {
    text += fmt::format("    {:<28}{}\n", fmt::format("tensor {}, inside a {}", groups.tensor, groups.tier),
                        text_of(groups, reach));
  }
  return text;
}

Json json_of(const TensorReach& reach, const std::string& items) {
  Json smaller = Json::array();
  for (const SmallerGroups& groups : reach.smaller) {
    Json one = {{"tensor", groups.tensor}, {"inside", groups.tier}, {"fits", groups.fastest.has_value()}};
    if (groups.fastest) {
      const Prediction& prediction = groups.fastest->prediction;
      one["set"] = groups.fastest->settings;
      one["step_seconds"] = prediction.step_seconds;
      one[items + "_per_second"] = prediction.items_per_second();
      one["speedup"] = reach.step_seconds / prediction.step_seconds;
    }
    smaller.push_back(std::move(one));
  }
  return {{"tensor", reach.tensor},
          {"domain", reach.domain},
          {"domain_devices", reach.domain_devices},
          {"leaves_domain", reach.leaves_domain},
          {"warning", reach.warning()},
          {"smaller", std::move(smaller)}};
}

}  // namespace terrace::plan
