// terrace forecast CHECKPOINT --data P --start TIME --lead 72h --output F.nc: writes forecasts of prepared fields.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/json_errors.h"
#include "cli/ranges.h"
#include "cli/training/forecast_options.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/output_file.h"
#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/forecast/forecast_file.h"
#include "terrace/forecast/forecast_times.h"
#include "terrace/run/forecast_checkpoint.h"
#include "terrace/train/agreement.h"
#include "terrace/train/stop_request.h"

namespace terrace::cli {
namespace {

struct ForecastArguments {
  run::ForecastRequest request;
  forecast::ForecastTimes times;
  std::string output;
  bool overwrite = false, json = false;
};

// The contents of the file, for a script.
Json result_json(const ForecastArguments& arguments, const run::ForecastModel& model,
                 const forecast::ForecastPlan& plan) {
  const data::FieldsDescription& all = model.source.description();
  Json starts = Json::array(), leads = Json::array();
  for (const int64_t start : plan.starts) {
    starts.push_back(data::text_of(all.calendar, all.times[static_cast<size_t>(start)]));
  }
  for (const int64_t lead : plan.leads) leads.push_back(forecast::lead_text(all.step, lead));
  return {{"file", arguments.output},
          {"checkpoint", model.checkpoint.string()},
          {"step", model.step},
          {"data", model.source.config().fields},
          {"starts", starts},
          {"leads", leads},
          {"variables", model.source.request().outputs}};
}

std::string summary_of(const Json& result) {
  const Json &starts = result.at("starts"), &leads = result.at("leads");
  std::string text = fmt::format("wrote {}: {} from {}", result.at("file").get<std::string>(),
                                 counted(starts.size(), "start"), starts.front().get<std::string>());
  if (starts.size() > 1) text += " to " + starts.back().get<std::string>();
  text += fmt::format(", {} ahead, {}",
                      leads.size() > 1 ? fmt::format("{} leads to {}", leads.size(), leads.back().get<std::string>())
                                       : leads.front().get<std::string>(),
                      fmt::join(result.at("variables").get<std::vector<std::string>>(), ", "));
  return text;
}

void run_forecast(ForecastArguments& arguments) {
  train::stop_on_signals();
  LaunchedRanks ranks = connect(arguments.request.model.ranks);
  arguments.request.model.world = ranks.world.get();
  const bool is_reporting_rank = ranks.is_reporting_rank();
  std::unique_ptr<forecast::ForecastWriter> writer;
  Json result;
  arguments.request.plan = [&](const run::ForecastModel& model) {
    check_new_file(arguments.output, "--output", "forecast.nc", arguments.overwrite);
    forecast::ForecastPlan plan = forecast::plan_forecasts(model.source, arguments.times, model.knows_lead);
    if (is_reporting_rank) {
      writer = forecast::create_forecasts(arguments.output, forecast_header(model, plan));
      result = result_json(arguments, model, plan);
    }
    return plan;
  };
  arguments.request.begin = [](const run::ForecastModel&, const forecast::ForecastPlan&) {};
  arguments.request.take = [&](size_t start, size_t lead, std::span<const float> fields) {
    writer->write(start, lead, 0, fields);
  };
  forecast_and_leave(arguments.request, ranks);
  if (writer == nullptr) return;
  writer->commit();
  fmt::print("{}\n", arguments.json ? result.dump() : summary_of(result));
}

}  // namespace

void add_forecast_command(CLI::App& app) {
  auto arguments = std::make_shared<ForecastArguments>();
  CLI::App* command = app.add_subcommand("forecast", "Forecast fields of weather and climate with a trained model");
  command
      ->add_option("checkpoint", arguments->request.model.checkpoint,
                   "A checkpoint's folder, or a run's folder for its newest complete checkpoint")
      ->required();
  command->add_option("--data", arguments->request.fields, "Prefix of prepared fields with the times of the starts")
      ->required();
  command->add_option("--start", arguments->times.starts, "A time of the data, such as 2017-01-01T06; may be repeated");
  command
      ->add_option("--starts", arguments->times.range,
                   "All times between two dates, FROM TO EVERY: 2017-01-01 2017-12-31 24h")
      ->expected(3);
  add_lead_options(*command, arguments->times);
  command->add_option("--output", arguments->output, "The NetCDF file that is written")->required();
  command->add_flag("--overwrite", arguments->overwrite, "Replace the file where it exists");
  add_model_options(*command, arguments->request.model);
  command->add_flag("--json", arguments->json, "Print what the file has as one JSON object");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { run_forecast(*arguments); }); });
}

}  // namespace terrace::cli
