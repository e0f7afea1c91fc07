// terrace predict CHECKPOINT..: properties of structures, or fields, by one model or by several with their spread.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/commands.h"
#include "cli/json_errors.h"
#include "cli/reporting_process.h"
#include "cli/training/forecast_options.h"
#include "cli/training/predict_fields.h"
#include "cli/training/predict_structures.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/comm/launcher.h"
#include "terrace/forecast/forecast_times.h"
#include "terrace/run/checkpoint_ranks.h"

namespace terrace::cli {
namespace {

struct PredictArguments {
  std::vector<std::string> checkpoints;
  std::string data, split = "test", output, csv, page, dataset, serve;
  forecast::ForecastTimes times;     // leads and rollout, of fields
  run::CheckpointRequest resources;  // of fields; of structures the threads alone
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

// An option that was given though it is of no use to the models.
std::string unused_option(std::initializer_list<std::pair<const char*, bool>> given) {
  for (const auto& [name, is_given] : given) {
    if (is_given) return name;
  }
  return "";
}

FieldsToPredict fields_to_predict(const PredictArguments& arguments, std::vector<std::filesystem::path> members) {
  const std::string unused = unused_option({{"--csv", !arguments.csv.empty()},
                                            {"--page", !arguments.page.empty()},
                                            {"--dataset", !arguments.dataset.empty()},
                                            {"--serve", !arguments.serve.empty()},
                                            {"--split all", arguments.split == "all"}});
  if (!unused.empty()) {
    throw UserError::of(
        "{} is for models of structures, and {} forecasts fields; leave it out, and give --output, and --lead, "
        "--rollout and --split train, validation or test as you need them",
        unused, members.front().string());
  }
  if (arguments.output.empty()) {
    throw UserError::of("{} forecasts fields, which are written to a NetCDF file; name it with --output predicted.nc",
                        members.front().string());
  }
  return {.members = std::move(members),
          .data = arguments.data,
          .split = arguments.split,
          .output = arguments.output,
          .times = arguments.times,
          .resources = arguments.resources,
          .overwrite = arguments.overwrite,
          .json = arguments.json};
}

StructuresToPredict structures_to_predict(const PredictArguments& arguments,
                                          std::vector<std::filesystem::path> members) {
  const std::string unused = unused_option({{"--lead", !arguments.times.leads.empty()},
                                            {"--rollout", !arguments.times.rollout.empty()},
                                            {"--ranks", arguments.resources.ranks != 1},
                                            {"--device cuda", arguments.resources.device == "cuda"},
                                            {"a launcher", comm::launched_processes() > 1}});
  if (unused.empty()) {
    return {.members = std::move(members),
            .data = arguments.data,
            .split = arguments.split,
            .dataset = arguments.dataset,
            .output = arguments.output,
            .csv = arguments.csv,
            .page = arguments.page,
            .serve = arguments.serve,
            .threads = arguments.resources.threads,
            .overwrite = arguments.overwrite,
            .json = arguments.json};
  }
  throw UserError::of(
      "{} is for models of fields, and {} predicts properties of structures, on the CPU by one rank; "
      "leave it out",
      unused, members.front().string());
}

using ToPredict = std::variant<FieldsToPredict, StructuresToPredict>;

ToPredict what_to_predict(const PredictArguments& arguments) {
  const std::vector<std::filesystem::path> members = members_of(arguments.checkpoints);
  if (members.empty()) throw UserError::of("the ensemble {} has no members", arguments.checkpoints.front());
  if (forecasts_fields(members.front())) return fields_to_predict(arguments, members);
  return structures_to_predict(arguments, members);
}

void run_prediction(const PredictArguments& arguments) {
  ToPredict asked;
  try {
    asked = what_to_predict(arguments);
  } catch (const UserError& error) {
    // All processes of a launch find the same mistake.
    throw UserError(is_reporting_process() ? error.what() : "", error.code);
  }
  if (const auto* fields = std::get_if<FieldsToPredict>(&asked)) return predict_fields(*fields);
  predict_structures(std::get<StructuresToPredict>(asked));
}

}  // namespace

void add_predict_command(CLI::App& app) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand("predict", "Predict structures or fields with one or several trained models");
  command
      ->add_option("checkpoints", arguments->checkpoints,
                   "Checkpoints, runs (their newest checkpoint) or folders of ensembles")
      ->required();
  command
      ->add_option("--data", arguments->data, "Prefix of prepared graphs or fields, or a file or folder of structures")
      ->required();
  command->add_option("--split", arguments->split, "Part of prepared data")
      ->check(CLI::IsMember({"train", "validation", "test", "all"}))
      ->capture_default_str();
  command->add_option("--dataset", arguments->dataset,
                      "Which of the run's datasets the structures belong to, where it had several");
  auto* output = command->add_option("--output", arguments->output,
                                     "Extended XYZ of the structures with what is predicted, or NetCDF of fields");
  auto* csv = command->add_option("--csv", arguments->csv, "CSV with a row for each structure");
  auto* page = command->add_option("--page", arguments->page,
                                   "Write an HTML page with predictions beside labels, the calibration of the spread "
                                   "and the structures with the largest errors");
  command
      ->add_option("--serve", arguments->serve,
                   "Give energies and forces of the first structure to the program that listens at this Unix socket "
                   "(/tmp/ipi_NAME, or a path), by i-PI's protocol")
      ->excludes(output)
      ->excludes(csv)
      ->excludes(page);
  command->add_flag("--overwrite", arguments->overwrite, "Replace files where they exist");
  add_lead_options(*command, arguments->times);
  add_model_options(*command, arguments->resources);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "With several models, values are means and NAME_std their spread; where prepared data have a validation part, a "
      "factor of the spread is fitted to it and the test part judged with and without. --lead, --rollout, --ranks and "
      "--device are for models of fields (docs/weather.md).");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { run_prediction(*arguments); }); });
}

}  // namespace terrace::cli
