// Compares two records by the names of their figures.
#include "terrace/observe/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "terrace/base/units.h"

namespace terrace::observe {
namespace {

// Measured memory knows no difference between these; the prediction's are added up.
const std::set<std::string, std::less<>> activation_kinds = {"activations", "temporary", "communication", "slack"};

// Figures of the measured record beside those of the prediction that mean the same.
double predicted_figure(const std::vector<NamedFigure>& predicted, const std::string& name) {
  if (name != in_step_memory) return figure(predicted, name);
  double total = 0;
  for (const NamedFigure& one : predicted) total += activation_kinds.contains(one.name) ? one.value : 0;
  return total;
}

std::string most_different(const std::vector<NamedFigure>& predicted, const std::vector<NamedFigure>& measured,
                           Compared& compared) {
  std::set<std::string> names;
  for (const NamedFigure& one : measured) names.insert(one.name);
  for (const NamedFigure& one : predicted) {
    if (!activation_kinds.contains(one.name)) names.insert(one.name);
  }
  std::string most;
  for (const std::string& name : names) {
    const Compared own{predicted_figure(predicted, name), figure(measured, name)};
    if (most.empty() || std::abs(own.predicted - own.measured) > std::abs(compared.predicted - compared.measured)) {
      most = name;
      compared = own;
    }
  }
  return most;
}

// The stage whose figures have the largest sum.
template <typename Figures>
const StageRecord& largest(const StepRecord& record, Figures figures) {
  return *std::ranges::max_element(record.stages, {}, [&](const StageRecord& stage) { return sum(stage.*figures); });
}

const StageRecord& stage_of(const StepRecord& record, int64_t number) {
  return *std::ranges::find(record.stages, number, &StageRecord::stage);
}

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

}  // namespace

StepComparison compare(const StepRecord& predicted, const StepRecord& measured) {
  StepComparison comparison;
  comparison.seconds = {predicted.step_seconds, measured.step_seconds};
  const StageRecord& fullest = largest(measured, &StageRecord::memory_bytes);
  const StageRecord& same = stage_of(predicted, fullest.stage);
  comparison.memory_bytes = {sum(same.memory_bytes), sum(fullest.memory_bytes)};
  comparison.memory_category = most_different(same.memory_bytes, fullest.memory_bytes, comparison.category_bytes);
  const auto computing = [](const StageRecord& stage) {
    return sum(stage.seconds) - figure(stage.seconds, "waits for stages");
  };
  const StageRecord& slowest = *std::ranges::max_element(measured.stages, {}, computing);
  comparison.seconds_category =
      most_different(stage_of(predicted, slowest.stage).seconds, slowest.seconds, comparison.category_seconds);
  return comparison;
}

std::string text_of(const StepComparison& comparison) {
  const Compared &seconds = comparison.seconds, &bytes = comparison.memory_bytes;
  return fmt::format("a step: {} predicted, {} measured ({}); memory of a rank: {} predicted, {} measured ({})",
                     format_seconds(seconds.predicted), format_seconds(seconds.measured), percent(seconds.error()),
                     format_bytes(bytes.predicted), format_bytes(bytes.measured), percent(bytes.error()));
}

std::vector<std::string> warnings_of(const StepComparison& comparison) {
  std::vector<std::string> warnings;
  if (std::abs(comparison.seconds.error()) > most_error) {
    const Compared& one = comparison.category_seconds;
    warnings.push_back(
        fmt::format("the step's predicted time is {} off; \"{}\" differs most: {} predicted, {} measured. Measure this "
                    "machine with "
                    "'terrace calibrate' if other programs do not slow it down",
                    percent(comparison.seconds.error()), comparison.seconds_category, format_seconds(one.predicted),
                    format_seconds(one.measured)));
  }
  if (std::abs(comparison.memory_bytes.error()) > most_error) {
    const Compared& one = comparison.category_bytes;
    warnings.push_back(fmt::format("the predicted memory is {} off; \"{}\" differs most: {} predicted, {} measured",
                                   percent(comparison.memory_bytes.error()), comparison.memory_category,
                                   format_bytes(one.predicted), format_bytes(one.measured)));
  }
  return warnings;
}

}  // namespace terrace::observe
