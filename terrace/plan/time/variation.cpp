// Doubles and halves sizes, and tries the other words of each choice.
#include "terrace/plan/time/variation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "terrace/config/family.h"
#include "terrace/config/names.h"
#include "terrace/config/rules.h"

namespace terrace::plan {
namespace {

using config::Config;
using config::PipelineSchedule;

class Varying {
 public:
  explicit Varying(const Config& config) : config_(config) {}

  // Adds a variation by a function that changes the copy; the settings are the keys whose values differ.
  void add(const std::function<void(Config&)>& change) {
    Config changed = config_;
    change(changed);
    const std::vector<std::string> settings = differences(config_, changed);
    if (settings.empty() || !holds_rules(changed) ||
        !seen_.insert(fmt::format("{}", fmt::join(settings, " "))).second) {
      return;
    }
    list_.push_back({settings, std::move(changed)});
  }

  std::vector<Variation> list() { return std::move(list_); }

 private:
  const Config& config_;
  std::vector<Variation> list_;
  std::set<std::string> seen_;
};

void set_schedule(config::LayoutConfig& layout, PipelineSchedule schedule, int64_t chunks) {
  layout.schedule = schedule;
  layout.chunks = chunks;
  forget_stage_numbers(layout);
}

}  // namespace

std::vector<std::string> differences(const Config& config, const Config& changed) {
  std::vector<std::string> settings;
  for (const config::Key& key : config::keys_of(config.family)) {
    if (key.section != "train" && key.section != "layout") continue;
    const std::string value = key.write(changed);
    if (value != key.write(config)) settings.push_back(fmt::format("{}={}", key.full_name(), value));
  }
  return settings;
}

void forget_stage_numbers(config::LayoutConfig& layout) {
  layout.stage_layers.clear();
  if (layout.recompute_layers.numbers.size() > 1) {
    layout.recompute_layers = {.word = config::RecomputeLayers::Word::fit};
  }
}

bool holds_rules(const Config& config) {
  const auto holds = [&](const config::Rule& rule) { return rule.problem(config).empty(); };
  return std::ranges::all_of(config::core_rules(), holds) && std::ranges::all_of(config.family->settings.rules, holds);
}

std::vector<Variation> variations(const Config& config) {
  Varying varying(config);
  const auto scale = [](int64_t value, bool up) { return up ? 2 * value : std::max<int64_t>(1, value / 2); };
  for (const bool up : {true, false}) {
    if (config.train.micro_batch > 0)
      varying.add([&](Config& c) { c.train.micro_batch = scale(c.train.micro_batch, up); });
    varying.add([&](Config& c) {
      for (auto& [name, size] : c.train.micro_batch_sizes) size = scale(size, up);
    });
    varying.add([&](Config& c) { c.layout.tensor = scale(c.layout.tensor, up); });
    varying.add([&](Config& c) {
      c.layout.pipeline = scale(c.layout.pipeline, up);
      forget_stage_numbers(c.layout);
    });
    varying.add([&](Config& c) {
      c.layout.tensor = scale(c.layout.tensor, up);
      c.layout.pipeline = scale(c.layout.pipeline, !up);
      forget_stage_numbers(c.layout);
    });
  }
  for (const auto recompute : {config::Recompute::none, config::Recompute::selective, config::Recompute::full}) {
    varying.add([&](Config& c) {
      c.train.recompute = recompute;
      c.layout.recompute_layers = {};
    });
  }
  for (const auto sharding : {config::Sharding::ddp, config::Sharding::zero1, config::Sharding::zero2,
                              config::Sharding::zero3, config::Sharding::node, config::Sharding::three_level}) {
    varying.add([&](Config& c) { c.layout.sharding = sharding; });
  }
  varying.add([](Config& c) { c.layout.sequence_parallel = !c.layout.sequence_parallel; });
  if (config.layout.pipeline > 1) {
    varying.add([](Config& c) { set_schedule(c.layout, PipelineSchedule::one_f_one_b, 1); });
    varying.add([](Config& c) { set_schedule(c.layout, PipelineSchedule::zb_h1, 1); });
    varying.add([](Config& c) { set_schedule(c.layout, PipelineSchedule::zb_v, 2); });
    for (const int64_t chunks : {2, 4}) {
      varying.add([&](Config& c) { set_schedule(c.layout, PipelineSchedule::interleaved, chunks); });
    }
  }
  return varying.list();
}

}  // namespace terrace::plan
