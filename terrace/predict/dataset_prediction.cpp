// Predicts structures piece by piece and collects what has labels.
#include "terrace/predict/dataset_prediction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/dataset/graphs_description.h"
#include "terrace/data/graphs/structures/quantities.h"
#include "terrace/data/graphs/structures/structure_stream.h"
#include "terrace/ensemble/uncertainty.h"

namespace terrace::predict {
namespace {

constexpr int64_t structures_at_once = 256;

// Combines the predictions of all members for an output.
ensemble::Distribution combined(const std::vector<GraphPrediction>& members, const models::GraphOutput& output) {
  std::vector<std::vector<double>> values, variances;
  for (const GraphPrediction& member : members) {
    values.push_back(member.values.at(output.name));
    if (members.size() == 1 && !output.has_variance) continue;
    variances.emplace_back();
    for (const double deviation : member.unlearned.at(output.name)) variances.back().push_back(deviation * deviation);
    if (!output.has_variance) continue;
    const std::vector<double>& deviations = member.deviations.at(output.name);
    for (size_t i = 0; i < deviations.size(); ++i) variances.back()[i] += deviations[i] * deviations[i];
  }
  return ensemble::combined(values, variances);
}

data::Properties& level_of(data::Structure& structure, const models::GraphOutput& output) {
  return output.level == data::GraphLevel::atom ? structure.of_atoms : structure.of_structure;
}

bool is_stress(const models::GraphOutput& output) {
  return !output.derivative_of.empty() && output.level == data::GraphLevel::structure;
}

}  // namespace

DatasetPrediction::DatasetPrediction(DatasetRequest request) : request_(std::move(request)) {
  for (const std::filesystem::path& path : request_.models) {
    models_.push_back(std::make_unique<const GraphPredictor>(path));
  }
  const auto names = [](const GraphPredictor& model) {
    std::vector<std::string> list;
    for (const models::GraphOutput& output : model.outputs()) {
      list.push_back(fmt::format("{} [{}]", output.name, output.columns));
    }
    return list;
  };
  for (const auto& model : models_) {
    if (names(*model) == names(*models_.front())) continue;
    throw UserError::of("{} predicts {}, and {} {}; models of one prediction have the same outputs",
                        models_.front()->checkpoint().string(), fmt::join(names(*models_.front()), ", "),
                        model->checkpoint().string(), fmt::join(names(*model), ", "));
  }
  branch_ = branch_of(*models_.front());
  for (const models::GraphOutput& output : outputs()) label_factors_[output.name] = label_factor(output);
}

std::vector<const GraphPredictor*> DatasetPrediction::models() const {
  std::vector<const GraphPredictor*> list;
  for (const auto& model : models_) list.push_back(model.get());
  return list;
}

bool DatasetPrediction::has_spread() const {
  return models_.size() > 1 ||
         std::ranges::any_of(outputs(), [](const models::GraphOutput& output) { return output.has_variance; });
}

bool DatasetPrediction::is_prepared() const {
  return data::describes_graphs(data::graphs_description_path(request_.data));
}

std::vector<ensemble::JudgedOutput> DatasetPrediction::run(const std::string& part,
                                                           const std::function<void(const data::Structure&)>& take) {
  data::StructureStream stream(request_.data, part);
  Progress progress("predict " + part, static_cast<uint64_t>(stream.left()));
  std::vector<ensemble::JudgedOutput> judged = outputs_to_judge();
  unknown_.clear();
  uint64_t done = 0;
  for (;;) {
    std::vector<data::Structure> structures = stream.next(structures_at_once);
    if (structures.empty()) break;
    if (request_.stops()) throw UserError("stopped on request, without a result", ExitCode::stopped);
    if (done > 0) end_start();
    std::vector<GraphPrediction> members;
    for (const auto& model : models_) members.push_back(model->predict(structures, branch_));
    for (const std::string& element : models_.front()->unknown_elements(structures)) unknown_.insert(element);
    for (size_t i = 0; i < outputs().size(); ++i) {
      add(outputs()[i], members, structures, static_cast<int64_t>(done), judged[i]);
    }
    done += structures.size();
    if (take) std::ranges::for_each(structures, take);
    progress.update(done);
  }
  structures_ = static_cast<int64_t>(done);
  return judged;
}

int64_t DatasetPrediction::branch_of(const GraphPredictor& model) const {
  const std::vector<std::string>& datasets = model.datasets();
  const std::string wanted = request_.dataset.empty() ? request_.data : request_.dataset;
  const auto name = [](const std::string& prefix) { return std::filesystem::path(prefix).filename(); };
  for (size_t i = 0; i < datasets.size(); ++i) {
    if (name(datasets[i]) == name(wanted)) return static_cast<int64_t>(i);
  }
  if (datasets.size() == 1 && request_.dataset.empty()) return 0;
  throw UserError::of("the models were trained on {}: say with --dataset which of them these structures belong to",
                      fmt::join(datasets, ", "));
}

// The outputs to judge, in the order of outputs() and without values.
std::vector<ensemble::JudgedOutput> DatasetPrediction::outputs_to_judge() const {
  std::vector<ensemble::JudgedOutput> judged;
  for (const models::GraphOutput& output : outputs()) {
    judged.push_back({.name = output.name,
                      .units = units_of(output),
                      .is_per_atom = output.per_atom,
                      .is_of_atoms = output.level == data::GraphLevel::atom,
                      .columns = output.columns});
  }
  return judged;
}

// The units of predictions and labels: as the data of the model declare them, or else these data; "" where neither
// does.
std::string DatasetPrediction::units_of(const models::GraphOutput& output) const {
  const std::string of_model = models_.front()->units_of(output.name);
  return of_model.empty() ? units_of_label(output) : of_model;
}

// The units of a label as the description of the data has them, and for a stress those of its label; "" where it has
// none.
std::string DatasetPrediction::units_of_label(const models::GraphOutput& output) const {
  if (!is_prepared()) return "";
  const data::GraphsDataset dataset(request_.data);
  const data::GraphsDescription& all = dataset.description();
  const int64_t number = all.find(output.label, output.level);
  if (number < 0) return "";
  const std::string& units = all.properties[static_cast<size_t>(number)].units;
  return is_stress(output) ? data::unit_of_stress(output.label, units) : units;
}

// The factor from the unit of the labels to that of the model, where one of them is not eV or angstrom.
double DatasetPrediction::label_factor(const models::GraphOutput& output) const {
  const data::PhysicalQuantity quantity =
      is_stress(output) ? data::PhysicalQuantity::stress : data::quantity_of(output.label);
  const std::string of_model = models_.front()->units_of(output.name), of_label = units_of_label(output);
  // Models of before units were kept predict in those of their data.
  if (of_model.empty() || of_model == of_label || quantity == data::PhysicalQuantity::other) return 1;
  const auto standard = [&](const std::string& unit) {
    return unit.empty() ? 1.0 : data::checked_standard_units_in(output.label, quantity, unit);
  };
  return standard(of_label) / standard(of_model);
}

// Adds columns to the structures, the first of which has the number `first`, and to `judged` what has a label.
void DatasetPrediction::add(const models::GraphOutput& output, const std::vector<GraphPrediction>& members,
                            std::vector<data::Structure>& structures, int64_t first,
                            ensemble::JudgedOutput& judged) const {
  const ensemble::Distribution all = combined(members, output);
  size_t at = 0;
  int64_t number = first;
  for (data::Structure& structure : structures) {
    const auto rows = output.level == data::GraphLevel::atom ? static_cast<size_t>(structure.atoms()) : size_t{1};
    const size_t count = rows * static_cast<size_t>(output.columns);
    data::Properties& properties = level_of(structure, output);
    const auto part = [&](const std::vector<double>& values) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
      return data::PropertyValues{.width = output.columns,
                                  .values = {begin, begin + static_cast<std::ptrdiff_t>(count)}};
    };
    const auto label = properties.find(output.label);
    if (label != properties.end() && label->second.width == output.columns) {
      const double atoms = output.per_atom ? static_cast<double>(structure.atoms()) : 1;
      const double factor = label_factors_.at(output.name) *
                            (is_stress(output) ? data::stress_in_label(output.label, structure.cell) : 1);
      const auto columns = static_cast<size_t>(output.columns);
      for (size_t i = 0; i < count; ++i) {
        // A row of which a part is missing is left out whole, since the judgement counts rows by their columns.
        const auto row = std::span(label->second.values).subspan(i / columns * columns, columns);
        if (factor == 0 || std::ranges::any_of(row, [](double value) { return std::isnan(value); })) continue;
        judged.predicted.mean.push_back(all.mean[at + i] / atoms);
        judged.predicted.deviation.push_back(all.deviation[at + i] / atoms);
        judged.labels.push_back(factor * label->second.values[i] / atoms);
        judged.structures.push_back(number);
        judged.rows.push_back(static_cast<int64_t>(i / columns));
      }
    }
    // A label of the output's own name stays beside it.
    if (const auto same = properties.find(output.name); same != properties.end()) {
      properties[output.name + "_label"] = same->second;
    }
    properties[output.name] = part(all.mean);
    if (has_spread()) properties[output.name + "_std"] = part(all.deviation);
    for (size_t member = 0; members.size() > 1 && member < members.size(); ++member) {
      properties[fmt::format("{}_{}", output.name, member + 1)] = part(members[member].values.at(output.name));
    }
    at += count;
    ++number;
  }
}

}  // namespace terrace::predict
