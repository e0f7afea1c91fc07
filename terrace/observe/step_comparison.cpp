// Compares two records by the names of their figures.
#include "terrace/observe/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "terrace/base/text/units.h"

namespace terrace::observe {
namespace {

// Measured figures of which the prediction has only parts, which are added up.
const std::map<std::string, std::set<std::string>, std::less<>> predicted_parts = {
    {in_step_memory, {"activations", "temporary", "movements", "communication", "slack"}},
    {stage_waits, {bubble_waits, queued_waits}}};

// The name under which a prediction's figure is compared.
std::string measured_name(const std::string& predicted) {
  for (const auto& [whole, parts] : predicted_parts) {
    if (parts.contains(predicted)) return whole;
  }
  return predicted;
}

// The figures of both under the names of the measured ones.
std::vector<std::pair<std::string, ComparedFigure>> paired(const std::vector<NamedFigure>& predicted,
                                                           const std::vector<NamedFigure>& measured) {
  std::vector<std::pair<std::string, ComparedFigure>> pairs;
  for (const NamedFigure& one : measured) pairs.emplace_back(one.name, ComparedFigure{0, one.value});
  for (const NamedFigure& one : predicted) {
    const std::string name = measured_name(one.name);
    auto found = std::ranges::find(pairs, name, &std::pair<std::string, ComparedFigure>::first);
    if (found == pairs.end()) found = pairs.emplace(pairs.end(), name, ComparedFigure{});
    found->second.predicted += one.value;
  }
  return pairs;
}

std::string most_different(const std::vector<NamedFigure>& predicted, const std::vector<NamedFigure>& measured,
                           ComparedFigure& compared) {
  std::string most;
  for (const auto& [name, own] : paired(predicted, measured)) {
    if (most.empty() || std::abs(own.predicted - own.measured) > std::abs(compared.predicted - compared.measured)) {
      most = name;
      compared = own;
    }
  }
  return most;
}

// The stage that takes most memory, and the one that computes longest.
const StageRecord& fullest_of(const StepRecord& record) {
  return *std::ranges::max_element(record.stages, {}, [](const StageRecord& stage) { return sum(stage.memory_bytes); });
}
const StageRecord& slowest_of(const StepRecord& record) {
  return *std::ranges::max_element(record.stages, {}, [](const StageRecord& stage) {
    return sum(stage.seconds) - figure(stage.seconds, stage_waits);
  });
}

const StageRecord& stage_of(const StepRecord& record, int64_t number) {
  return *std::ranges::find(record.stages, number, &StageRecord::stage);
}

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

}  // namespace

StepComparison compare(const StepRecord& predicted, const StepRecord& measured) {
  StepComparison comparison;
  comparison.seconds = {predicted.step_seconds, measured.step_seconds};
  const StageRecord &fullest = fullest_of(measured), &same = stage_of(predicted, fullest.stage);
  comparison.memory_bytes = {sum(same.memory_bytes), sum(fullest.memory_bytes)};
  comparison.memory_category = most_different(same.memory_bytes, fullest.memory_bytes, comparison.category_bytes);
  const StageRecord& slowest = slowest_of(measured);
  comparison.seconds_category =
      most_different(stage_of(predicted, slowest.stage).seconds, slowest.seconds, comparison.category_seconds);
  return comparison;
}

std::string table_of(const StepRecord& predicted, const StepRecord& measured) {
  const StepComparison comparison = compare(predicted, measured);
  const StageRecord &slowest = slowest_of(measured), &fullest = fullest_of(measured);
  std::string text = fmt::format("  {:<30}{:>12}{:>12}{:>9}\n", "a step", "predicted", "measured", "error");
  const auto line = [&](const std::string& name, const ComparedFigure& one, const auto& format) {
    if (one.predicted == 0 && one.measured == 0) return;
    text += fmt::format("  {:<30}{:>12}{:>12}{:>9}\n", name, format(one.predicted), format(one.measured),
                        one.measured > 0 && one.predicted > 0 ? percent(one.error()) : "");
  };
  line("time", comparison.seconds, format_seconds);
  for (const auto& [name, one] : paired(stage_of(predicted, slowest.stage).seconds, slowest.seconds)) {
    line("  " + name, one, format_seconds);
  }
  const auto bytes = [](double value) { return format_bytes(value); };
  line("memory of a rank", comparison.memory_bytes, bytes);
  for (const auto& [name, one] : paired(stage_of(predicted, fullest.stage).memory_bytes, fullest.memory_bytes)) {
    line("  " + name, one, bytes);
  }
  return text;
}

std::string text_of(const StepComparison& comparison) {
  const ComparedFigure &seconds = comparison.seconds, &bytes = comparison.memory_bytes;
  return fmt::format("a step: {} predicted, {} measured ({}); memory of a rank: {} predicted, {} measured ({})",
                     format_seconds(seconds.predicted), format_seconds(seconds.measured), percent(seconds.error()),
                     format_bytes(bytes.predicted), format_bytes(bytes.measured), percent(bytes.error()));
}

std::vector<std::string> warnings_of(const StepComparison& comparison) {
  std::vector<std::string> warnings;
  if (std::abs(comparison.seconds.error()) > most_error) {
    const ComparedFigure& one = comparison.category_seconds;
    warnings.push_back(
        fmt::format("the step's predicted time is {} off; \"{}\" differs most: {} predicted, {} measured. Measure this "
                    "machine with "
                    "'terrace calibrate' if other programs do not slow it down",
                    percent(comparison.seconds.error()), comparison.seconds_category, format_seconds(one.predicted),
                    format_seconds(one.measured)));
  }
  if (std::abs(comparison.memory_bytes.error()) > most_error) {
    const ComparedFigure& one = comparison.category_bytes;
    warnings.push_back(fmt::format("the predicted memory is {} off; \"{}\" differs most: {} predicted, {} measured",
                                   percent(comparison.memory_bytes.error()), comparison.memory_category,
                                   format_bytes(one.predicted), format_bytes(one.measured)));
  }
  return warnings;
}

}  // namespace terrace::observe
