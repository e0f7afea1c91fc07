// terrace predict CHECKPOINT..: properties of structures by one model, or by several with their spread.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/json_errors.h"
#include "cli/ranges.h"
#include "cli/training/output_file.h"
#include "terrace/base/csv.h"
#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/json.h"
#include "terrace/base/log.h"
#include "terrace/base/plural.h"
#include "terrace/base/progress.h"
#include "terrace/data/graphs/formats/extended_xyz_writer.h"
#include "terrace/data/graphs/graphs_dataset.h"
#include "terrace/data/graphs/graphs_description.h"
#include "terrace/data/graphs/structure_stream.h"
#include "terrace/ensemble/uncertainty.h"
#include "terrace/predict/force_driver.h"
#include "terrace/predict/graph_predictor.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace terrace::cli {
namespace {

constexpr int64_t structures_at_once = 256;

struct PredictArguments {
  std::vector<std::string> checkpoints;
  std::string data, split = "test", output, csv, dataset, serve;
  int64_t threads = 0;
  bool overwrite = false, json = false;
};

// A folder with an ensemble stands for its members.
std::vector<std::filesystem::path> members_of(const std::vector<std::string>& checkpoints) {
  std::vector<std::filesystem::path> members;
  for (const std::string& given : checkpoints) {
    const std::filesystem::path description = std::filesystem::path(given) / "ensemble.json";
    if (!std::filesystem::exists(description)) {
      members.emplace_back(given);
      continue;
    }
    const Json described = parse_json(read_text(description));
    for (const Json& member : described.at("members")) {
      members.push_back(std::filesystem::path(given) / member.at("name").get<std::string>());
    }
  }
  return members;
}

// What all members predict of some structures, by output.
struct Predicted {
  std::vector<predict::GraphPrediction> members;

  ensemble::Distribution of(const models::GraphOutput& output) const {
    std::vector<std::vector<double>> values, variances;
    for (const predict::GraphPrediction& member : members) {
      values.push_back(member.values.at(output.name));
      if (!output.has_variance) continue;
      variances.emplace_back();
      for (const double deviation : member.deviations.at(output.name))
        variances.back().push_back(deviation * deviation);
    }
    return ensemble::combined(values, variances);
  }
};

// The labelled values of an output with what is predicted of them; of outputs for each atom those are divided by its
// structure's atoms.
struct Judged {
  ensemble::Distribution predicted;
  std::vector<double> labels;
};

data::Properties& level_of(data::Structure& structure, const models::GraphOutput& output) {
  return output.level == data::GraphLevel::atom ? structure.of_atoms : structure.of_structure;
}

class Prediction {
 public:
  explicit Prediction(const PredictArguments& arguments) : arguments_(arguments) {
    for (const std::filesystem::path& path : members_of(arguments.checkpoints)) {
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

  // Predicts a part of the data and hands each structure with its columns to `take`, if that is given.
  std::map<std::string, Judged> run(const std::string& part, const std::function<void(const data::Structure&)>& take) {
    data::StructureStream stream(arguments_.data, part);
    Progress progress("predict " + part, static_cast<uint64_t>(stream.left()));
    std::map<std::string, Judged> judged;
    unknown_.clear();
    uint64_t done = 0;
    for (;;) {
      std::vector<data::Structure> structures = stream.next(structures_at_once);
      if (structures.empty()) break;
      if (interrupted()) throw UserError("stopped on request, without a result", ExitCode::stopped);
      Predicted predicted;
      for (const auto& model : models_) predicted.members.push_back(model->predict(structures, branch_));
      for (const std::string& element : models_.front()->unknown_elements(structures)) unknown_.insert(element);
      for (const models::GraphOutput& output : outputs()) add(output, predicted, structures, judged[output.name]);
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

  // Adds columns to the structures, and to `judged` what has a label.
  void add(const models::GraphOutput& output, const Predicted& predicted, std::vector<data::Structure>& structures,
           Judged& judged) const {
    const ensemble::Distribution all = predicted.of(output);
    size_t at = 0;
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
        for (size_t i = 0; i < count; ++i) {
          judged.predicted.mean.push_back(all.mean[at + i] / atoms);
          judged.predicted.deviation.push_back(all.deviation[at + i] / atoms);
          judged.labels.push_back(label->second.values[i] / atoms);
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
    }
  }

  const PredictArguments& arguments_;
  std::vector<std::unique_ptr<const predict::GraphPredictor>> models_;
  int64_t branch_ = 0, structures_ = 0;
  std::set<std::string> unknown_;
};

// What is written, once all of it is there.
class PredictionFiles {
 public:
  explicit PredictionFiles(const PredictArguments& arguments) {
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
        cells.push_back(fmt::format("{}", property.values[static_cast<size_t>(column)]));
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

// Of each output the errors, and with a spread how it fits them, before and after the scale that the validation part
// gives.
Json outputs_json(const Prediction& prediction, const std::map<std::string, Judged>& judged,
                  const std::map<std::string, Judged>& validation) {
  Json outputs = Json::object();
  for (const models::GraphOutput& output : prediction.outputs()) {
    const Judged& own = judged.at(output.name);
    if (own.labels.empty()) continue;
    Json one = ensemble::json_of(ensemble::calibration(own.predicted, own.labels));
    const auto found = validation.find(output.name);
    if (prediction.has_spread() && found != validation.end() && !found->second.labels.empty()) {
      const double scale = ensemble::fitted_scale(found->second.predicted, found->second.labels);
      one["scale"] = scale;
      one["scaled"] = ensemble::json_of(ensemble::calibration(ensemble::scaled(own.predicted, scale), own.labels));
    }
    outputs[output.name] = std::move(one);
  }
  return outputs;
}

std::string table_of(const Json& outputs) {
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

bool has_validation_part(const std::string& data) {
  return data::describes_graphs(data::graphs_description_path(data)) &&
         !data::GraphsDataset(data).part("validation").empty();
}

// Energies and forces of one structure whose atoms another program moves.
void serve(const PredictArguments& arguments, const Prediction& prediction) {
  data::StructureStream stream(arguments.data, "all");
  std::vector<data::Structure> structures = stream.next(1);
  if (structures.empty()) throw UserError::of("{} has no structure; --serve takes its elements", arguments.data);
  const std::filesystem::path socket = predict::driver_socket(arguments.serve);
  log_info("gives energies and forces of {} to the program that listens at {}",
           counted(structures.front().atoms(), "atom"), socket.string());
  const int64_t answered = predict::drive(prediction.models(), std::move(structures.front()),
                                          {.socket = socket, .stops = [] { return interrupted().load(); }});
  fmt::print("answered {}\n", counted(answered, "time"));
}

void run_prediction(const PredictArguments& arguments) {
  check_new_file(arguments.output, "--output", "predicted.xyz", arguments.overwrite);
  check_new_file(arguments.csv, "--csv", "predicted.csv", arguments.overwrite);
  stop_on_signals();
  train::prepare_machine(arguments.threads > 0 ? arguments.threads : train::choose_threads(0));
  Prediction prediction(arguments);
  if (!arguments.serve.empty()) return serve(arguments, prediction);
  std::map<std::string, Judged> validation;
  if (prediction.has_spread() && arguments.split == "test" && has_validation_part(arguments.data)) {
    validation = prediction.run("validation", {});
  }
  PredictionFiles files(arguments);
  const std::map<std::string, Judged> judged =
      prediction.run(arguments.split, [&](const data::Structure& structure) { files.add(structure); });
  files.commit();
  if (!prediction.unknown().empty()) {
    log_warning("no training structure had {}: nothing was learned of {}", fmt::join(prediction.unknown(), ", "),
                plural(prediction.unknown().size(), "this element", "these elements"));
  }
  Json result = prediction.about();
  result["outputs"] = outputs_json(prediction, judged, validation);
  if (arguments.json) {
    fmt::print("{}\n", result.dump());
    return;
  }
  fmt::print("predicted {}\n{}", counted(prediction.structures(), "structure"), table_of(result.at("outputs")));
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command =
      app.add_subcommand("predict", "Predict properties of structures with one or several trained models");
  command
      ->add_option("checkpoints", arguments->checkpoints,
                   "Checkpoints, runs (their newest checkpoint) or folders of ensembles")
      ->required();
  command->add_option("--data", arguments->data, "Prefix of prepared graphs, or a file or folder of structures")
      ->required();
  command->add_option("--split", arguments->split, "Part of prepared graphs")
      ->check(CLI::IsMember({"train", "validation", "test", "all"}))
      ->capture_default_str();
  command->add_option("--dataset", arguments->dataset,
                      "Which of the run's datasets the structures belong to, where it had several");
  command->add_option("--output", arguments->output, "Extended XYZ of the structures with what is predicted");
  command->add_option("--csv", arguments->csv, "CSV with a row for each structure");
  command->add_option("--serve", arguments->serve,
                      "Give energies and forces of the first structure to the program that listens at this Unix socket "
                      "(/tmp/ipi_NAME, or a path), by i-PI's protocol");
  command->add_flag("--overwrite", arguments->overwrite, "Replace files where they exist");
  command->add_option("--threads", arguments->threads, "CPU threads; 0: the cores")
      ->check(thread_count())
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "With several models, values are means and NAME_std their spread; where prepared graphs have a validation part, "
      "a "
      "scale of the spread is fitted to it and the test part judged with and without.");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { run_prediction(*arguments); }); });
}

}  // namespace terrace::cli
