// Writes what noise costs.
#include "terrace/plan/noise/noise_report.h"

#include <fmt/format.h>

#include <string_view>

#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"

namespace terrace::plan {
namespace {

// The shares of the steps that are below and above the printed interval.
constexpr double low_share = 0.05, high_share = 0.95;

// Costs that are drawn may be a little below zero.
double percent_of(double part, double whole) {
  const double percent = 100 * part / whole;
  return percent > -0.05 && percent < 0 ? 0 : percent;
}

}  // namespace

std::string text_of_noisy_seconds(double seconds, double noiseless_seconds) {
  return fmt::format("{} ({:+.1f}%)", format_seconds(seconds),
                     percent_of(seconds - noiseless_seconds, noiseless_seconds));
}

Json json_of(const NoiseCosts& costs) {
  return {{"own", costs.own_seconds},
          {"tensor", costs.tensor_seconds},
          {"stages", costs.stages_seconds},
          {"replicas", costs.replica_seconds}};
}

std::string text_of(const ExpectedStep& expected) {
  const auto percent = [&](double seconds) {
    return fmt::format("{:.1f}%", percent_of(seconds, expected.noiseless_seconds));
  };
  const NoiseCosts& costs = expected.costs;
  return fmt::format("{}: devices by themselves {}, tensor groups {}, pipeline {}, replicas {}",
                     text_of_noisy_seconds(expected.seconds, expected.noiseless_seconds), percent(costs.own_seconds),
                     percent(costs.tensor_seconds), percent(costs.stages_seconds), percent(costs.replica_seconds));
}

Json json_of(const ExpectedStep& expected) {
  return {{"expected_step_seconds", expected.seconds}, {"costs_seconds", json_of(expected.costs)}};
}

std::string text_of(const DrawnSteps& drawn, double noiseless_seconds) {
  std::string text = fmt::format("{} with the machine's noise: median {}, 90% from {} to {}, mean {}\n",
                                 counted(drawn.seconds.size(), "step"), format_seconds(drawn.quantile(0.5)),
                                 format_seconds(drawn.quantile(low_share)), format_seconds(drawn.quantile(high_share)),
                                 text_of_noisy_seconds(drawn.mean_seconds, noiseless_seconds));
  const auto line = [&](std::string_view what, double seconds) {
    text += fmt::format("    {:<32}{:>6.1f}%\n", what, percent_of(seconds, noiseless_seconds));
  };
  line("devices by themselves", drawn.costs.own_seconds);
  line("waits within tensor groups", drawn.costs.tensor_seconds);
  line("waits along the pipeline", drawn.costs.stages_seconds);
  line("waits among replicas", drawn.costs.replica_seconds);
  return text;
}

Json json_of(const DrawnSteps& drawn, uint64_t seed) {
  return {{"draws", drawn.seconds.size()},
          {"seed", seed},
          {"median_seconds", drawn.quantile(0.5)},
          {"low_seconds", drawn.quantile(low_share)},
          {"high_seconds", drawn.quantile(high_share)},
          {"mean_seconds", drawn.mean_seconds},
          {"costs_seconds", json_of(drawn.costs)}};
}

}  // namespace terrace::plan
