// Writes what models predict of structures, and how it fits the labels.
#include "cli/training/predict_structures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/interruption.h"
#include "cli/training/output_file.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/csv.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/formats/extended_xyz_writer.h"
#include "terrace/data/graphs/structures/formula.h"
#include "terrace/data/graphs/structures/structure_stream.h"
#include "terrace/ensemble/judgement.h"
#include "terrace/ensemble/judgement_page.h"
#include "terrace/ensemble/uncertainty.h"
#include "terrace/predict/dataset_prediction.h"
#include "terrace/predict/force_driver.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace terrace::cli {
namespace {

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

Json json_of(const predict::DatasetPrediction& prediction) {
  Json checkpoints = Json::array();
  for (const predict::GraphPredictor* model : prediction.models()) {
    checkpoints.push_back({{"checkpoint", model->checkpoint().string()}, {"step", model->step()}});
  }
  return {{"checkpoints", checkpoints},
          {"structures", prediction.structures()},
          {"unknown_elements", prediction.unknown_elements()}};
}

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

std::string reason_for_no_scale(const StructuresToPredict& arguments, const predict::DatasetPrediction& prediction) {
  if (!prediction.is_prepared()) return arguments.data + " is no prepared dataset with a validation part";
  if (arguments.split != "test") return "it is for the test part, and this is --split " + arguments.split;
  if (data::GraphsDataset(arguments.data).part("validation").empty()) return arguments.data + " has no validation part";
  return "";
}

Scales fitted_scales(const StructuresToPredict& arguments, predict::DatasetPrediction& prediction) {
  Scales scales{.of_outputs = std::vector<std::optional<double>>(prediction.outputs().size())};
  std::string reason = reason_for_no_scale(arguments, prediction);
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

void write_page(const StructuresToPredict& arguments, const predict::DatasetPrediction& prediction,
                ensemble::JudgementPage page) {
  page.data = arguments.data;
  page.part = prediction.is_prepared() ? arguments.split : "";
  for (const predict::GraphPredictor* model : prediction.models()) {
    page.checkpoints.push_back(model->checkpoint().string());
  }
  write_text_atomically(arguments.page, ensemble::judgement_page(page));
  log_info("wrote {}", arguments.page);
}

// Energies and forces of one structure whose atoms another program moves.
void serve(const StructuresToPredict& arguments, const predict::DatasetPrediction& prediction) {
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
  predict::DatasetPrediction prediction(
      {.models = arguments.members, .data = arguments.data, .dataset = arguments.dataset, .stops = [] {
         return interrupted().load();
       }});
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
  if (!prediction.unknown_elements().empty()) {
    log_warning("no training structure had {}: nothing was learned of {}",
                fmt::join(prediction.unknown_elements(), ", "),
                plural(prediction.unknown_elements().size(), "this element", "these elements"));
  }
  Json result = json_of(prediction);
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
