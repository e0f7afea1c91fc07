// Predicts each number of devices, and writes tables.
#include "terrace/plan/layouts/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/domain.h"

namespace terrace::plan {
namespace {

std::string counted_devices(int64_t devices) { return counted(static_cast<uint64_t>(devices), "device"); }

double rate_of_device(const ScalingPoint& point) {
  return point.prediction.items_per_second() / static_cast<double>(point.devices);
}

// The batch grows with the devices, or stays.
enum class Batch { grows, stays };

std::vector<ScalingPoint> predicted(const config::Config& config, Target target, const std::vector<int64_t>& devices,
                                    Batch batch, const std::vector<PublishedErrors>& errors,
                                    std::vector<std::string>& left_out) {
  std::vector<ScalingPoint> points;
  for (const int64_t number : devices) {
    config::Config scaled = config;
    if (batch == Batch::grows) scaled.train.global_batch = config.train.global_batch * number / devices.front();
    target.devices = number;
    try {
      const PlannedRun run = planned_run(scaled, target);
      ScalingPoint point{
          .devices = number, .global_batch = scaled.train.global_batch, .prediction = predict(run, target)};
      point.interval = step_interval(run, point.prediction, target, errors);
      points.push_back(std::move(point));
    } catch (const UserError& error) {
      std::string sentence = fmt::format("{} with a global batch of {}: {}", counted_devices(number),
                                         scaled.train.global_batch, error.what());
      // Both kinds of scaling begin with the same devices and batch.
      if (std::ranges::find(left_out, sentence) == left_out.end()) left_out.push_back(std::move(sentence));
    }
  }
  for (ScalingPoint& point : points) {
    point.efficiency = rate_of_device(point) / rate_of_device(points.front());
    if (&point == &points.front()) continue;
    const std::optional<RatioInterval> steps = ratio_interval(point.interval, points.front().interval);
    if (!steps) continue;
    point.efficiency_interval = {point.efficiency / steps->highest, point.efficiency / steps->lowest,
                                 steps->shares_errors};
  }
  return points;
}

Json json_of(const std::optional<RatioInterval>& interval) {
  if (!interval) return nullptr;
  return {{"lowest", interval->lowest}, {"highest", interval->highest}, {"shares_errors", interval->shares_errors}};
}

Json list_of(const std::vector<ScalingPoint>& points) {
  Json list = Json::array();
  for (const ScalingPoint& point : points) {
    list.push_back({{"devices", point.devices},
                    {"global_batch", point.global_batch},
                    {"feasible", point.prediction.feasible()},
                    {"step_seconds", point.prediction.step_seconds},
                    {"interval", json_of(point.interval)},
                    {"items_per_second", point.prediction.items_per_second()},
                    {"mfu", point.prediction.mfu()},
                    {"efficiency", point.efficiency},
                    {"efficiency_interval", json_of(point.efficiency_interval)}});
  }
  return list;
}

// The efficiency as a bar beside its figures, in 80 columns together.
std::string table_of(const char* title, const std::vector<ScalingPoint>& points, const std::string& items) {
  constexpr double bar_width = 12;
  std::string text = fmt::format("{}\n    {:>8}{:>13}{:>12}{:>11}{:>7}{:>12}\n", title, "devices", "global batch",
                                 "step", items + "/s", "MFU", "efficiency");
  for (const ScalingPoint& point : points) {
    const auto bar = static_cast<size_t>(std::lround(bar_width * std::clamp(point.efficiency, 0.0, 1.0)));
    text += fmt::format("    {:>8}{:>13}{:>12}{:>11.4g}{:>6.1f}%{:>11.1f}% {}\n", point.devices, point.global_batch,
                        format_seconds(point.prediction.step_seconds), point.prediction.items_per_second(),
                        100 * point.prediction.mfu(), 100 * point.efficiency,
                        point.prediction.feasible() ? std::string(bar, '#') : "does not fit");
  }
  return text;
}

// "1 device", "2 and 4 devices".
std::string listed_devices(const std::set<int64_t>& devices) {
  std::vector<std::string> numbers;
  for (const int64_t one : devices) numbers.push_back(std::to_string(one));
  const bool is_one = devices.size() == 1 && devices.contains(1);
  return fmt::format("{} {}", config::listed(numbers, "and"), is_one ? "device" : "devices");
}

// The devices of all points by a text that belongs to them, without those whose text is empty.
template <typename Text>
std::map<std::string, std::set<int64_t>> devices_by(const Scaling& scaling, const Text& text_of_point) {
  std::map<std::string, std::set<int64_t>> devices;
  for (const std::vector<ScalingPoint>* points : {&scaling.weak, &scaling.strong}) {
    for (const ScalingPoint& point : *points) devices[text_of_point(point, points->front())].insert(point.devices);
  }
  devices.erase("");
  return devices;
}

// Says which points have another kind of layout than the first, what follows for their efficiencies, and which points
// have no interval.
std::string interval_sentences(const Scaling& scaling) {
  const auto kind_of = [](const ScalingPoint& point) { return point.interval.errors.kind; };
  const auto of_other_kind = devices_by(scaling, [&](const ScalingPoint& point, const ScalingPoint& first) {
    return point.efficiency_interval && kind_of(point) != kind_of(first) ? kind_of(point) : "";
  });
  std::string text;
  for (const auto& [kind, devices] : of_other_kind) {
    const ScalingPoint& first = scaling.weak.empty() ? scaling.strong.front() : scaling.weak.front();
    text += fmt::format(
        "layouts on {} are of another kind ({}) than on {} ({}): published errors of two kinds need not agree, so the "
        "intervals of these efficiencies hold those of both in full\n",
        listed_devices(devices), kind, first.devices, kind_of(first));
  }
  const auto outside = devices_by(scaling, [](const ScalingPoint& point, const ScalingPoint&) {
    return point.interval.outside.empty() ? "" : text_of(point.interval);
  });
  for (const auto& [reason, devices] : outside) {
    text += fmt::format("no interval with {}, {}\n", listed_devices(devices), reason);
  }
  const auto without_base = devices_by(scaling, [](const ScalingPoint& point, const ScalingPoint& first) {
    return point.interval.outside.empty() && !first.interval.outside.empty() ? "yes" : "";
  });
  if (!without_base.empty()) text += "no efficiency has an interval, since the step of the first row has none\n";
  return text;
}

// A line for the interval of each step and efficiency that has one.
std::string intervals_of(const std::vector<ScalingPoint>& points) {
  std::string text;
  for (const ScalingPoint& point : points) {
    const StepInterval& interval = point.interval;
    if (!interval.outside.empty()) continue;
    const std::optional<RatioInterval>& efficiency = point.efficiency_interval;
    text += fmt::format(
        "    {:>8}{:>28}{:>16}  {}\n", point.devices,
        fmt::format("{} to {}", format_seconds(interval.shortest_seconds), format_seconds(interval.longest_seconds)),
        efficiency ? fmt::format("{:.0f}% to {:.0f}%", 100 * efficiency->lowest, 100 * efficiency->highest) : "",
        interval.errors.kind);
  }
  if (!text.empty()) {
    text = fmt::format("  as measured, if predictions err as those of published runs did\n    {:>8}{:>28}{:>16}  {}\n",
                       "devices", "step", "efficiency", "kind of layout") +
           text;
  }
  return text;
}

}  // namespace

Scaling scaling(const config::Config& config, const Target& target, const std::vector<int64_t>& devices,
                const std::vector<PublishedErrors>& errors) {
  Target one = target;
  one.devices = 1;
  check_target(config, one);  // what is wrong there is wrong with every number of devices
  Scaling result;
  result.weak = predicted(config, target, devices, Batch::grows, errors, result.left_out);
  result.strong = predicted(config, target, devices, Batch::stays, errors, result.left_out);
  return result;
}

std::string why_none_fits(const Scaling& scaling) {
  std::string reasons;
  for (const std::vector<ScalingPoint>* points : {&scaling.weak, &scaling.strong}) {
    for (const ScalingPoint& point : *points) {
      if (point.prediction.feasible()) return "";
      if (reasons.empty()) reasons = fmt::format("with {} {}", counted_devices(point.devices), point.prediction.reason);
    }
  }
  if (reasons.empty() && !scaling.left_out.empty()) reasons = scaling.left_out.front();
  return "no number of devices fits: " + reasons;
}

Json json_of(const Scaling& scaling) {
  return {{"weak", list_of(scaling.weak)}, {"strong", list_of(scaling.strong)}, {"left_out", scaling.left_out}};
}

std::string text_of(const Scaling& scaling, const std::string& items) {
  std::string text = table_of("weak scaling: the global batch grows with the devices", scaling.weak, items) +
                     intervals_of(scaling.weak) +
                     table_of("strong scaling: the global batch stays", scaling.strong, items) +
                     intervals_of(scaling.strong);
  text += interval_sentences(scaling);
  for (const std::string& sentence : scaling.left_out) text += "left out: " + sentence + "\n";
  return text;
}

}  // namespace terrace::plan
