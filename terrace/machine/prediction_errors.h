// States how far predicted steps of measured runs were from the measured ones: for one kind of layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/text/json_record.h"
#include "terrace/config/domain.h"

namespace terrace::machine {

// The errors of all compared runs with layouts of one kind (plan::layout_kind).
struct PredictionErrors {
  std::string kind = {};
  int64_t runs = 0;
  // Predicted over measured, less 1: the least and the most that are to be expected.
  double lowest = 0, highest = 0;
  // The median difference of the errors of two runs with the same model, machine and program: of layouts whose
  // predicted steps differ by less either may be the faster one. 0: no two runs have these in common.
  double median_difference = 0;
  // By how much the ratio of the steps of two runs is predicted too large that differ in their devices alone: the 90th
  // percentile of (1 + one error) / (1 + a smaller one) - 1, or of fewer than 40 pairs the most. 0: no two runs do.
  double ratio_error = 0;
  int64_t most_devices = 0;
  int64_t fewest_parameters = 0, most_parameters = 0;
  std::vector<std::string> families = {}, machines = {}, programs = {};  // of the runs, by name

  bool operator==(const PredictionErrors&) const = default;
};

void members_of(auto& json, MaybeConst<PredictionErrors> auto& one) {
  json("kind", one.kind)("runs", one.runs)("lowest", one.lowest)("highest", one.highest);
  json("median_difference", one.median_difference)("ratio_error", one.ratio_error);
  json("most_devices", one.most_devices)("fewest_parameters", one.fewest_parameters);
  json("most_parameters", one.most_parameters);
  json("families", one.families)("machines", one.machines)("programs", one.programs);
}

// The keys of a table of [[errors]] in a machine's description. All runs were on that machine, which has no key.
template <typename Table>
void prediction_errors_keys(Table& table) {
  const config::Real share{.least = -1, .most = 100, .least_excluded = true};
  const config::Whole parameters{1, 1'000'000'000'000'000};
  table.required("kind", &PredictionErrors::kind, config::Text{}, "\"one stage in one node\"");
  table.required("runs", &PredictionErrors::runs, config::Whole{1, 1'000'000'000}, "12");
  table.required("lowest", &PredictionErrors::lowest, share, "-0.05");
  table.required("highest", &PredictionErrors::highest, share, "0.07");
  table.optional("median_difference", &PredictionErrors::median_difference, config::Real{.least = 0, .most = 100});
  table.optional("ratio_error", &PredictionErrors::ratio_error, config::Real{.least = 0, .most = 100});
  table.required("most_devices", &PredictionErrors::most_devices, config::Whole{1, 1'000'000'000}, "64");
  table.required("fewest_parameters", &PredictionErrors::fewest_parameters, parameters, "1300000000");
  table.required("most_parameters", &PredictionErrors::most_parameters, parameters, "22000000000");
  table.required("families", &PredictionErrors::families, config::Texts{}, "[\"gpt\"]");
  table.required("programs", &PredictionErrors::programs, config::Texts{}, "[\"terrace\"]");
  table.rule({"highest", "lowest"}, [](const PredictionErrors& errors) {
    return errors.highest >= errors.lowest ? std::string() : fmt::format("is less than lowest, {}", errors.lowest);
  });
  table.rule({"most_parameters", "fewest_parameters"}, [](const PredictionErrors& errors) {
    if (errors.most_parameters >= errors.fewest_parameters) return std::string();
    return fmt::format("is less than fewest_parameters, {}", errors.fewest_parameters);
  });
}

}  // namespace terrace::machine
