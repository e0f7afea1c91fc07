// Compares predictions with labels.
#include "terrace/ensemble/judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "terrace/base/text/plural.h"

namespace terrace::ensemble {

Json json_of(const JudgedOutput& output) {
  Json json = json_of(calibration(output.predicted, output.labels));
  if (output.scale) {
    json["scale"] = *output.scale;
    json["scaled"] = json_of(calibration(scaled(output.predicted, *output.scale), output.labels));
  }
  return json;
}

std::string judgement_table(const Json& outputs) {
  std::string text;
  for (const auto& [name, one] : outputs.items()) {
    const auto number = [](const Json& value) {
      return value.is_null() ? "-" : fmt::format("{:.4g}", value.get<double>());
    };
    text += fmt::format("{}: mae {}, rmse {}, {}\n", name, number(one.at("mae")), number(one.at("rmse")),
                        counted(one.at("count").get<int64_t>(), "value"));
    if (one.at("miscalibration_area").is_null()) continue;
    const auto spread = [&](const char* title, const Json& of) {
      text += fmt::format("  {}: miscalibration area {}, sharpness {}, ENCE {}, NLL {}, Spearman {}\n", title,
                          number(of.at("miscalibration_area")), number(of.at("sharpness")), number(of.at("ence")),
                          number(of.at("nll")), number(of.at("spearman")));
    };
    spread("spread", one);
    if (one.contains("scaled")) spread(fmt::format("times {}", number(one.at("scale"))).c_str(), one.at("scaled"));
  }
  return text;
}

std::vector<WorstCase> worst_cases(const JudgedOutput& output, size_t at_most) {
  std::vector<std::pair<double, WorstCase>> all;
  for (size_t begin = 0, end = 0; begin < output.labels.size(); begin = end) {
    double largest = -1;
    size_t worst = begin;
    for (; end < output.labels.size() && output.structures[end] == output.structures[begin]; ++end) {
      const double error = std::abs(output.predicted.mean[end] - output.labels[end]);
      const double size = std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
      if (size <= largest) continue;
      largest = size;
      worst = end;
    }
    const auto place = static_cast<int64_t>(worst - begin);
    all.emplace_back(largest, WorstCase{.value = worst,
                                        .structure = output.structures[begin],
                                        .atom = !output.is_of_atoms   ? -1
                                                : output.rows.empty() ? place / output.columns
                                                                      : output.rows[worst],
                                        .column = place % output.columns});
  }
  std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first > b.first; });
  if (all.size() > at_most) all.resize(at_most);
  std::vector<WorstCase> cases;
  for (const auto& [error, one] : all) cases.push_back(one);
  return cases;
}

}  // namespace terrace::ensemble
