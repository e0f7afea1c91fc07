// Puts the figures, points and curves of judged outputs into a page.
#include "terrace/ensemble/judgement_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "terrace/ensemble/judgement_template.h"
#include "terrace/observe/html_page.h"

namespace terrace::ensemble {
namespace {

constexpr size_t most_points = 2000;
constexpr size_t most_worst_cases = 50;
constexpr int64_t squares_on_a_side = 60;

bool is_finite(const JudgedOutput& output, size_t value) {
  return std::isfinite(output.labels[value]) && std::isfinite(output.predicted.mean[value]);
}

Json points_of(const JudgedOutput& output) {
  Json points = Json::array();
  for (size_t i = 0; i < output.labels.size(); ++i) {
    if (!is_finite(output, i)) continue;
    points.push_back({output.labels[i], output.predicted.mean[i], output.predicted.deviation[i], output.structures[i]});
  }
  return {{"points", std::move(points)}};
}

Json squares_of(const JudgedOutput& output) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (size_t i = 0; i < output.labels.size(); ++i) {
    if (!is_finite(output, i)) continue;
    least = std::min({least, output.labels[i], output.predicted.mean[i]});
    most = std::max({most, output.labels[i], output.predicted.mean[i]});
  }
  if (least > most) least = most = 0;
  if (least == most) most = least + 1;
  const auto square = [&](double value) {
    const auto place = static_cast<int64_t>((value - least) / (most - least) * squares_on_a_side);
    return std::clamp(place, int64_t{0}, squares_on_a_side - 1);
  };
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (size_t i = 0; i < output.labels.size(); ++i) {
    if (is_finite(output, i)) ++counts[{square(output.labels[i]), square(output.predicted.mean[i])}];
  }
  Json cells = Json::array();
  for (const auto& [place, count] : counts) cells.push_back({place.first, place.second, count});
  return {{"least", least}, {"most", most}, {"side", squares_on_a_side}, {"cells", std::move(cells)}};
}

Json parity_of(const JudgedOutput& output) {
  Json parity = output.labels.size() > most_points ? squares_of(output) : points_of(output);
  int64_t left_out = 0;
  for (size_t i = 0; i < output.labels.size(); ++i) left_out += is_finite(output, i) ? 0 : 1;
  parity["left_out"] = left_out;
  return parity;
}

Json observed_shares(const Distribution& predicted, const std::vector<double>& labels, Json* expected) {
  Json observed = Json::array();
  for (const auto& [share, found] : coverage(predicted, labels)) {
    if (expected != nullptr) expected->push_back(share);
    observed.push_back(found);
  }
  return observed;
}

Json bins_json(const Distribution& predicted, const std::vector<double>& labels) {
  Json bins = Json::array();
  for (const SpreadBin& bin : spread_bins(predicted, labels)) bins.push_back({bin.deviation, bin.rmse, bin.count});
  return bins;
}

// Adds curves of the spread where there is one.
void add_spread(const JudgedOutput& output, Json& json) {
  Json expected = Json::array();
  Json before = observed_shares(output.predicted, output.labels, &expected);
  if (expected.empty()) {
    json["coverage"] = json["bins"] = nullptr;
    return;
  }
  json["coverage"] = {{"expected", expected}, {"before", std::move(before)}};
  json["bins"] = {{"before", bins_json(output.predicted, output.labels)}};
  if (!output.scale) return;
  const Distribution own = scaled(output.predicted, *output.scale);
  json["coverage"]["after"] = observed_shares(own, output.labels, nullptr);
  json["bins"]["after"] = bins_json(own, output.labels);
}

Json worst_of(const JudgedOutput& output, const std::vector<JudgedStructure>& structures) {
  Json rows = Json::array();
  for (const WorstCase& one : worst_cases(output, most_worst_cases)) {
    const JudgedStructure& structure = structures.at(static_cast<size_t>(one.structure));
    const double label = output.labels[one.value], predicted = output.predicted.mean[one.value];
    Json row = {{"structure", one.structure},
                {"formula", structure.formula},
                {"atoms", structure.atoms},
                {"label", label},
                {"prediction", predicted},
                {"error", predicted - label},
                {"spread", output.predicted.deviation[one.value]}};
    if (one.atom >= 0) row["atom"] = one.atom;
    if (output.columns > 1) row["column"] = one.column;
    rows.push_back(std::move(row));
  }
  return rows;
}

Json output_json(const JudgedOutput& output, const std::vector<JudgedStructure>& structures) {
  Json json = {{"name", output.name},
               {"units", output.units},
               {"is_per_atom", output.is_per_atom},
               {"is_of_atoms", output.is_of_atoms},
               {"figures", json_of(output)},
               {"parity", parity_of(output)},
               {"worst", worst_of(output, structures)}};
  add_spread(output, json);
  return json;
}

}  // namespace

Json judgement_data(const JudgementPage& page) {
  Json outputs = Json::array();
  for (const JudgedOutput& output : page.outputs) outputs.push_back(output_json(output, page.structures));
  return {{"title", fmt::format("Predictions of {}", page.data)},
          {"data", page.data},
          {"part", page.part},
          {"checkpoints", page.checkpoints},
          {"structures", page.structures.size()},
          {"scale_note", page.scale_note},
          {"outputs", std::move(outputs)}};
}

std::string judgement_page(const JudgementPage& page) {
  const Json data = judgement_data(page);
  return observe::html_page(judgement_template(), data.at("title").get<std::string>(), data);
}

}  // namespace terrace::ensemble
