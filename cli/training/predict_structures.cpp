// Predicts structures piece by piece, writes what is predicted, and judges it.
#include "cli/training/predict_structures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/interruption.h"
#include "cli/training/output_file.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/csv.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/dataset/graphs_description.h"
#include "terrace/data/graphs/formats/extended_xyz_writer.h"
#include "terrace/data/graphs/structures/formula.h"
#include "terrace/data/graphs/structures/quantities.h"
#include "terrace/data/graphs/structures/structure_stream.h"
#include "terrace/ensemble/judgement.h"
#include "terrace/ensemble/judgement_page.h"
#include "terrace/ensemble/uncertainty.h"
#include "terrace/predict/force_driver.h"
#include "terrace/predict/graph_predictor.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace terrace::cli {
namespace {

constexpr int64_t structures_at_once = 256;

// The predictions of all members for some structures, by output.
struct Predicted {
  std::vector<predict::GraphPrediction> members;

  ensemble::Distribution of(const models::GraphOutput& output) const {
    std::vector<std::vector<double>> values, variances;
    for (const predict::GraphPrediction& member : members) {
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
};

bool is_prepared(const std::string& data) { return data::describes_graphs(data::graphs_description_path(data)); }

data::Properties& level_of(data::Structure& structure, const models::GraphOutput& output) {
  return output.level == data::GraphLevel::atom ? structure.of_atoms : structure.of_structure;
}

class Prediction {
 public:
  explicit Prediction(const StructuresToPredict& arguments) : arguments_(arguments) {
    for (const std::filesystem::path& path : arguments.members) {
      models_.push_back(std::make_unique<const predict::GraphPredictor>(path));
    }
    const auto names = [](const predict::GraphPredictor& model) {
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

  const std::vector<models::GraphOutput>& outputs() const { return models_.front()->outputs(); }
  std::vector<const predict::GraphPredictor*> models() const {
    std::vector<const predict::GraphPredictor*> list;
    for (const auto& model : models_) list.push_back(model.get());
    return list;
  }
  bool has_spread() const {
    return models_.size() > 1 ||
           std::ranges::any_of(outputs(), [](const models::GraphOutput& output) { return output.has_variance; });
  }

  // Predicts a part of the data, hands each structure with its columns to `take`, if that is given, and returns the
  // labelled values of each output.
  std::vector<ensemble::JudgedOutput> run(const std::string& part,
                                          const std::function<void(const data::Structure&)>& take) {
    data::StructureStream stream(arguments_.data, part);
    Progress progress("predict " + part, static_cast<uint64_t>(stream.left()));
    std::vector<ensemble::JudgedOutput> judged = outputs_to_judge();
    unknown_.clear();
    uint64_t done = 0;
    for (;;) {
      std::vector<data::Structure> structures = stream.next(structures_at_once);
      if (structures.empty()) break;
      if (interrupted()) throw UserError("stopped on request, without a result", ExitCode::stopped);
      if (done > 0) end_start();
      Predicted predicted;
      for (const auto& model : models_) predicted.members.push_back(model->predict(structures, branch_));
      for (const std::string& element : models_.front()->unknown_elements(structures)) unknown_.insert(element);
      for (size_t i = 0; i < outputs().size(); ++i) {
        add(outputs()[i], predicted, structures, static_cast<int64_t>(done), judged[i]);
      }
      done += structures.size();
      if (take) std::ranges::for_each(structures, take);
      progress.update(done);
    }
    structures_ = static_cast<int64_t>(done);
    return judged;
  }

  Json about() const {
    Json checkpoints = Json::array();
    for (const auto& model : models_) {
      checkpoints.push_back({{"checkpoint", model->checkpoint().string()}, {"step", model->step()}});
    }
    return {{"checkpoints", checkpoints}, {"structures", structures_}, {"unknown_elements", unknown_}};
  }
  const std::set<std::string>& unknown() const { return unknown_; }
  int64_t structures() const { return structures_; }

 private:
  int64_t branch_of(const predict::GraphPredictor& model) const {
    const std::vector<std::string>& datasets = model.datasets();
    const std::string wanted = arguments_.dataset.empty() ? arguments_.data : arguments_.dataset;
    const auto name = [](const std::string& prefix) { return std::filesystem::path(prefix).filename(); };
    for (size_t i = 0; i < datasets.size(); ++i) {
      if (name(datasets[i]) == name(wanted)) return static_cast<int64_t>(i);
    }
    if (datasets.size() == 1 && arguments_.dataset.empty()) return 0;
    throw UserError::of("the models were trained on {}: say with --dataset which of them these structures belong to",
                        fmt::join(datasets, ", "));
  }

  // The outputs to judge, in the order of outputs() and without values.
  std::vector<ensemble::JudgedOutput> outputs_to_judge() const {
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
  std::string units_of(const models::GraphOutput& output) const {
    const std::string of_model = models_.front()->units_of(output.name);
    return of_model.empty() ? units_of_label(output) : of_model;
  }

  // The units of a label as the description of the data has them, and for a stress those of its label; "" where it has
  // none.
  std::string units_of_label(const models::GraphOutput& output) const {
    if (!is_prepared(arguments_.data)) return "";
    const data::GraphsDataset dataset(arguments_.data);
    const data::GraphsDescription& all = dataset.description();
    const int64_t number = all.find(output.label, output.level);
    if (number < 0) return "";
    const std::string& units = all.properties[static_cast<size_t>(number)].units;
    return is_stress(output) ? data::unit_of_stress(output.label, units) : units;
  }

  static bool is_stress(const models::GraphOutput& output) {
    return !output.derivative_of.empty() && output.level == data::GraphLevel::structure;
  }

  // The factor from the unit of the labels to that of the model, where one of them is not eV or angstrom.
  double label_factor(const models::GraphOutput& output) const {
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
  void add(const models::GraphOutput& output, const Predicted& predicted, std::vector<data::Structure>& structures,
           int64_t first, ensemble::JudgedOutput& judged) const {
    const ensemble::Distribution all = predicted.of(output);
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
      for (size_t member = 0; predicted.members.size() > 1 && member < predicted.members.size(); ++member) {
        properties[fmt::format("{}_{}", output.name, member + 1)] =
            part(predicted.members[member].values.at(output.name));
      }
      at += count;
      ++number;
    }
  }

  const StructuresToPredict& arguments_;
  std::vector<std::unique_ptr<const predict::GraphPredictor>> models_;
  int64_t branch_ = 0, structures_ = 0;
  std::map<std::string, double> label_factors_;
  std::set<std::string> unknown_;
};

// The files that are written, once all of their content is there.
class PredictionFiles {
 public:
  explicit PredictionFiles(const StructuresToPredict& arguments) {
    if (!arguments.output.empty()) structures_.emplace(arguments.output);
    if (!arguments.csv.empty()) table_.emplace(arguments.csv);
  }

  void add(const data::Structure& structure) {
    if (structures_) structures_->write(data::extended_xyz(structure));
    if (table_) add_row(structure);
    ++number_;
  }

  void commit() {
    for (std::optional<AtomicFile>* file : {&structures_, &table_}) {
      if (*file) (*file)->sync();
    }
    if (structures_) structures_->commit();
    if (table_) table_->commit();
  }

 private:
  // A row for each structure: what there is of it, without what there is of its atoms.
  void add_row(const data::Structure& structure) {
    std::vector<std::string> names = {"structure", "atoms"},
                             cells = {std::to_string(number_), std::to_string(structure.atoms())};
    for (const auto& [name, property] : structure.of_structure) {
      for (int64_t column = 0; column < property.width; ++column) {
        names.push_back(csv_cell(property.width == 1 ? name : fmt::format("{}_{}", name, column)));
        const double value = property.values[static_cast<size_t>(column)];
        cells.push_back(std::isnan(value) ? "" : fmt::format("{}", value));
      }
    }
    if (number_ == 0) {
      header_ = names;
      table_->write(fmt::format("{}\n", fmt::join(names, ",")));
    }
    if (names != header_) {
      throw UserError::of(
          "structure {} has other properties than the first, which --csv needs to be the same: {} and {}", number_,
          fmt::join(names, ", "), fmt::join(header_, ", "));
    }
    table_->write(fmt::format("{}\n", fmt::join(cells, ",")));
  }

  std::optional<AtomicFile> structures_, table_;
  std::vector<std::string> header_;
  int64_t number_ = 0;
};

Json outputs_json(const std::vector<ensemble::JudgedOutput>& judged) {
  Json outputs = Json::object();
  for (const ensemble::JudgedOutput& output : judged) {
    if (!output.labels.empty()) outputs[output.name] = ensemble::json_of(output);
  }
  return outputs;
}

// A factor of each output's spread, in the order of the outputs, where what is judged is the test part and the
// validation part has labels; `note` says why there is none.
struct Scales {
  std::vector<std::optional<double>> of_outputs = {};
  std::string note = {};
};

std::string reason_for_no_scale(const StructuresToPredict& arguments) {
  if (!is_prepared(arguments.data)) return arguments.data + " is no prepared dataset with a validation part";
  if (arguments.split != "test") return "it is for the test part, and this is --split " + arguments.split;
  if (data::GraphsDataset(arguments.data).part("validation").empty()) return arguments.data + " has no validation part";
  return "";
}

Scales fitted_scales(const StructuresToPredict& arguments, Prediction& prediction) {
  Scales scales{.of_outputs = std::vector<std::optional<double>>(prediction.outputs().size())};
  std::string reason = reason_for_no_scale(arguments);
  if (reason.empty() && prediction.has_spread()) {
    const std::vector<ensemble::JudgedOutput> validation = prediction.run("validation", {});
    for (size_t i = 0; i < validation.size(); ++i) {
      if (validation[i].labels.empty()) continue;
      scales.of_outputs[i] = ensemble::fitted_scale(validation[i].predicted, validation[i].labels);
    }
    if (std::ranges::none_of(scales.of_outputs, [](const auto& scale) { return scale.has_value(); })) {
      reason = "the validation part has no labels";
    }
  }
  if (!reason.empty()) scales.note = fmt::format("No factor of the spread is fitted: {}.", reason);
  return scales;
}

void write_page(const StructuresToPredict& arguments, const Prediction& prediction, ensemble::JudgementPage page) {
  page.data = arguments.data;
  page.part = is_prepared(arguments.data) ? arguments.split : "";
  for (const predict::GraphPredictor* model : prediction.models()) {
    page.checkpoints.push_back(model->checkpoint().string());
  }
  write_text_atomically(arguments.page, ensemble::judgement_page(page));
  log_info("wrote {}", arguments.page);
}

// Energies and forces of one structure whose atoms another program moves.
void serve(const StructuresToPredict& arguments, const Prediction& prediction) {
  data::StructureStream stream(arguments.data, "all");
  std::vector<data::Structure> structures = stream.next(1);
  if (structures.empty()) throw UserError::of("{} has no structure; --serve takes its elements", arguments.data);
  const std::filesystem::path socket = predict::driver_socket(arguments.serve);
  end_start();
  log_info("gives energies and forces of {} to the program that listens at {}",
           counted(structures.front().atoms(), "atom"), socket.string());
  const int64_t answered = predict::drive(prediction.models(), std::move(structures.front()),
                                          {.socket = socket, .stops = [] { return interrupted().load(); }});
  fmt::print("answered {}\n", counted(answered, "time"));
}

}  // namespace

void predict_structures(const StructuresToPredict& arguments) {
  check_new_file(arguments.output, "--output", "predicted.xyz", arguments.overwrite);
  check_new_file(arguments.csv, "--csv", "predicted.csv", arguments.overwrite);
  check_new_file(arguments.page, "--page", "predicted.html", arguments.overwrite);
  stop_on_signals();
  train::prepare_machine(arguments.threads > 0 ? arguments.threads : train::choose_threads(0));
  Prediction prediction(arguments);
  if (!arguments.serve.empty()) return serve(arguments, prediction);
  const Scales scales = fitted_scales(arguments, prediction);
  ensemble::JudgementPage page{.scale_note = scales.note};
  PredictionFiles files(arguments);
  page.outputs = prediction.run(arguments.split, [&](const data::Structure& structure) {
    files.add(structure);
    if (!arguments.page.empty()) page.structures.push_back({data::formula_of(structure.species), structure.atoms()});
  });
  for (size_t i = 0; i < page.outputs.size(); ++i) page.outputs[i].scale = scales.of_outputs[i];
  files.commit();
  if (!prediction.unknown().empty()) {
    log_warning("no training structure had {}: nothing was learned of {}", fmt::join(prediction.unknown(), ", "),
                plural(prediction.unknown().size(), "this element", "these elements"));
  }
  Json result = prediction.about();
  result["outputs"] = outputs_json(page.outputs);
  if (!arguments.page.empty()) write_page(arguments, prediction, std::move(page));
  if (arguments.json) {
    fmt::print("{}\n", result.dump());
    return;
  }
  fmt::print("predicted {}\n{}", counted(prediction.structures(), "structure"),
             ensemble::judgement_table(result.at("outputs")));
}

}  // namespace terrace::cli
