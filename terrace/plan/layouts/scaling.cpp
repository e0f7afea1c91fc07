// Predicts each number of devices, and writes tables.
#include "terrace/plan/layouts/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"

namespace terrace::plan {
namespace {

std::string counted_devices(int64_t devices) { return counted(static_cast<uint64_t>(devices), "device"); }

double rate_of_device(const ScalingPoint& point) {
  return point.prediction.items_per_second() / static_cast<double>(point.devices);
}

std::vector<ScalingPoint> predicted(const config::Config& config, Target target, const std::vector<int64_t>& devices,
                                    bool grows, std::vector<std::string>& left_out) {
  std::vector<ScalingPoint> points;
  for (const int64_t number : devices) {
    config::Config scaled = config;
    if (grows) scaled.train.global_batch = config.train.global_batch * number / devices.front();
    target.devices = number;
    try {
      points.push_back(
          {.devices = number, .global_batch = scaled.train.global_batch, .prediction = predict(scaled, target)});
    } catch (const UserError& error) {
      std::string sentence = fmt::format("{} with a global batch of {}: {}", counted_devices(number),
                                         scaled.train.global_batch, error.what());
      // Both kinds of scaling begin with the same devices and batch.
      if (std::ranges::find(left_out, sentence) == left_out.end()) left_out.push_back(std::move(sentence));
    }
  }
  for (ScalingPoint& point : points) point.efficiency = rate_of_device(point) / rate_of_device(points.front());
  return points;
}

Json list_of(const std::vector<ScalingPoint>& points) {
  Json list = Json::array();
  for (const ScalingPoint& point : points) {
    list.push_back({{"devices", point.devices},
                    {"global_batch", point.global_batch},
                    {"feasible", point.prediction.feasible()},
                    {"step_seconds", point.prediction.step_seconds},
                    {"items_per_second", point.prediction.items_per_second()},
                    {"mfu", point.prediction.mfu()},
                    {"efficiency", point.efficiency}});
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

}  // namespace

Scaling scaling(const config::Config& config, const Target& target, const std::vector<int64_t>& devices) {
  Target one = target;
  one.devices = 1;
  check_target(config, one);  // what is wrong there is wrong with every number of devices
  Scaling result;
  result.weak = predicted(config, target, devices, true, result.left_out);
  result.strong = predicted(config, target, devices, false, result.left_out);
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
                     table_of("strong scaling: the global batch stays", scaling.strong, items);
  for (const std::string& sentence : scaling.left_out) text += "left out: " + sentence + "\n";
  return text;
}

}  // namespace terrace::plan
