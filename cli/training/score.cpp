// terrace score CHECKPOINT|F.nc --data P: scores forecasts beside persistence and climatology.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/json_errors.h"
#include "cli/training/forecast_options.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/output_file.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/spelling.h"
#include "terrace/forecast/forecast_file.h"
#include "terrace/forecast/forecast_scorer.h"
#include "terrace/forecast/score_file.h"
#include "terrace/forecast/score_page.h"
#include "terrace/forecast/score_report.h"
#include "terrace/run/forecast_checkpoint.h"
#include "terrace/train/stop_request.h"

namespace terrace::cli {
namespace {

struct ScoreArguments {
  std::string source;  // a checkpoint or a file of forecasts
  run::ForecastRequest request;
  forecast::ForecastTimes times;
  std::vector<std::string> variables;
  std::string split = "test", csv, page, page_start;
  bool strict = false, json = false;
};

bool is_file_of_forecasts(const ScoreArguments& arguments) {
  return std::filesystem::is_regular_file(arguments.source);
}

[[noreturn]] void stop_scoring() { throw UserError("stopped on request, without a result", ExitCode::stopped); }

void check_outputs(const ScoreArguments& arguments) {
  for (const std::string& path : {arguments.csv, arguments.page}) check_folder_of(path, path);
}

// The forecasts that are scored, one after another.
class Scoring {
 public:
  Scoring(const ScoreArguments& arguments, const data::FieldsDataset& data, std::vector<std::string> variables,
          const std::vector<int64_t>& leads)
      : arguments_(arguments), data_(data) {
    const auto& splits = data.description().splits;
    const auto train = splits.find("train");
    Progress progress("fit damped persistence",
                      train == splits.end() ? 0 : static_cast<uint64_t>(train->second.count()));
    scorer_.emplace(data, forecast::ScoreRequest{arguments.split, std::move(variables), leads}, [&](uint64_t done) {
      if (train::stop_requested()) stop_scoring();
      progress.update(done);
    });
    if (splits.contains("train") && data.description().climatology != data::ClimatologyKind::none) return;
    log_warning("{} has no {}, so no figures of {}", data.prefix(),
                splits.contains("train") ? "climatology" : "training part", "climatology, damped persistence and acc");
  }

  const forecast::ForecastScorer& scorer() const { return *scorer_; }

  // The starts of the forecasts that follow, as numbers of times; below 0: not in the data.
  void begin(const std::vector<int64_t>& starts) {
    if (arguments_.page.empty()) return;
    maps_.emplace(data_, scorer_->request(), forecast::map_start(arguments_.page_start, *scorer_, data_, starts));
  }

  void add(int64_t start, size_t lead, size_t variable, std::span<const float> forecast) {
    scorer_->add(start, lead, variable, forecast);
    if (maps_ && maps_->start() == start) maps_->add(lead, variable, forecast);
  }

  // Writes and prints the result.
  void report() const {
    const forecast::ScoreReport report = forecast::score_report(*scorer_, data_, arguments_.source);
    tell_left_out(report);
    if (!arguments_.csv.empty()) write_text_atomically(arguments_.csv, forecast::score_csv(report));
    if (maps_) {
      write_text_atomically(arguments_.page, forecast::score_page(report, maps_->json()));
      log_info("wrote {}", arguments_.page);
    }
    fmt::print("{}", arguments_.json ? forecast::score_json(report).dump() + "\n" : forecast::score_table(report));
  }

 private:
  void tell_left_out(const forecast::ScoreReport& report) const {
    constexpr size_t most = 8;
    std::vector<std::string> sentences = forecast::forecasts_left_out(report);
    if (sentences.empty()) return;
    const size_t more = sentences.size() > most ? sentences.size() - most : 0;
    sentences.resize(sentences.size() - more);
    const std::string text = fmt::format("{} lacks values: {}{}", arguments_.source, fmt::join(sentences, "; "),
                                         more > 0 ? fmt::format("; and {} more variables and leads", more) : "");
    if (arguments_.strict) throw UserError::of("{}; without --strict they are left out", text);
    log_warning("{}; they are left out of the scores, and --strict fails where any is", text);
  }

  const ScoreArguments& arguments_;
  const data::FieldsDataset& data_;
  std::optional<forecast::ForecastScorer> scorer_;
  std::optional<forecast::ScoreMaps> maps_;
};

// The places of the chosen variables among the outputs of a model.
std::vector<size_t> places_of(const std::vector<std::string>& variables, const std::vector<std::string>& outputs) {
  std::vector<size_t> places;
  for (const std::string& name : variables) {
    const auto found = std::ranges::find(outputs, name);
    if (found == outputs.end()) {
      const std::string nearest = nearest_word(name, outputs);
      throw UserError::of("--variables {}: the model does not predict it{}", name,
                          nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
    }
    places.push_back(static_cast<size_t>(found - outputs.begin()));
  }
  return places;
}

void score_checkpoint(ScoreArguments& arguments) {
  LaunchedRanks ranks = connect(arguments.request.model.ranks);
  run::ForecastRequest& request = arguments.request;
  request.model.checkpoint = arguments.source;
  request.model.world = ranks.world.get();
  std::unique_ptr<data::FieldsDataset> data;  // outlives the model
  std::optional<Scoring> scoring;
  std::vector<size_t> outputs;
  std::vector<int64_t> starts;
  request.plan = [&](const run::ForecastModel& model) {
    check_outputs(arguments);
    if (arguments.variables.empty()) arguments.variables = model.source.request().outputs;
    outputs = places_of(arguments.variables, model.source.request().outputs);
    return forecast::plan_forecasts_of_split(model.source, arguments.split, arguments.times, model.knows_lead);
  };
  request.begin = [&](const run::ForecastModel& model, const forecast::ForecastPlan& plan) {
    data = std::make_unique<data::FieldsDataset>(model.source.config().fields);
    starts = plan.starts;
    scoring.emplace(arguments, *data, arguments.variables, plan.leads);
    scoring->begin(starts);
  };
  request.take = [&](size_t start, size_t lead, std::span<const float> fields) {
    if (!scoring->scorer().is_scored(starts[start], lead)) return;
    const auto places = static_cast<size_t>(data->description().places());
    for (size_t i = 0; i < outputs.size(); ++i) {
      scoring->add(starts[start], lead, i, fields.subspan(outputs[i] * places, places));
    }
  };
  forecast_and_leave(request, ranks);
  if (scoring) scoring->report();
}

// The starts of the file from which some time of the split is predicted. Throws UserError where there are none.
std::vector<size_t> scored_starts(const forecast::MatchedForecasts& matched, const forecast::ForecastContents& contents,
                                  const forecast::ForecastScorer& scorer, const std::string& prefix, int64_t repeats) {
  std::vector<size_t> places;
  for (size_t i = 0; i < matched.starts.size(); ++i) {
    bool is_scored = false;
    for (size_t lead = 0; lead < matched.leads.size() && matched.starts[i] >= 0; ++lead) {
      is_scored = is_scored || scorer.is_scored(matched.starts[i], lead);
    }
    if (is_scored) places.push_back(i);
  }
  const std::string& split = scorer.request().split;
  if (places.empty()) {
    const auto [first, last] = std::ranges::minmax(contents.starts);
    throw UserError::of(
        "none of the {} of {}, from {} to {}, predicts a time of the {} part of {}; choose another --split or --data",
        counted(contents.starts.size(), "start"), contents.path.string(), data::text_of(contents.calendar, first),
        data::text_of(contents.calendar, last), split, prefix);
  }
  if (const size_t taken = places.size() + static_cast<size_t>(repeats); taken < contents.starts.size()) {
    log_info("{} of {} are left out: they predict no time of the {} part of {}", contents.starts.size() - taken,
             counted(contents.starts.size(), "start"), split, prefix);
  }
  return places;
}

void score_file(const ScoreArguments& arguments) {
  if (arguments.request.fields.empty()) {
    throw UserError::of("{} is scored against prepared fields; name them with --data", arguments.source);
  }
  if (!arguments.times.rollout.empty()) {
    throw UserError::of("--rollout {} makes forecasts with a checkpoint, and {} has forecasts already; leave it out",
                        arguments.times.rollout, arguments.source);
  }
  check_outputs(arguments);
  const data::FieldsDataset data(arguments.request.fields);
  const std::unique_ptr<forecast::ForecastFile> file = forecast::open_forecasts(arguments.source);
  const forecast::ForecastContents& contents = file->contents();
  forecast::MatchedForecasts matched =
      forecast::match_forecasts(contents, data, {.variables = arguments.variables, .leads = arguments.times.leads});
  const int64_t repeats = forecast::leave_out_repeats(*file, data, matched);
  if (repeats > 0) {
    const std::string text = fmt::format("{} gives {} of its {} twice, with the same forecasts", arguments.source,
                                         repeats, counted(contents.starts.size(), "start"));
    if (arguments.strict) throw UserError::of("{}; without --strict they count once", text);
    log_warning("{}; they count once", text);
  }
  Scoring scoring(arguments, data, matched.variables, matched.leads);
  const std::vector<size_t> starts = scored_starts(matched, contents, scoring.scorer(), data.prefix(), repeats);
  scoring.begin(matched.starts);
  Progress progress("score", starts.size());
  std::vector<float> values;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t start = matched.starts[starts[i]];
    for (size_t lead = 0; lead < matched.leads.size(); ++lead) {
      if (!scoring.scorer().is_scored(start, lead)) continue;
      for (size_t variable = 0; variable < matched.variables.size(); ++variable) {
        file->read(starts[i], matched.lead_places[lead], matched.variable_places[variable], values);
        scoring.add(start, lead, variable, values);
      }
    }
    if (train::stop_requested()) stop_scoring();
    progress.update(i + 1);
  }
  progress.clear();
  scoring.report();
}

}  // namespace

void add_score_command(CLI::App& app) {
  auto arguments = std::make_shared<ScoreArguments>();
  CLI::App* command = app.add_subcommand(
      "score", "Score forecasts of weather and climate beside persistence and climatology, in physical units");
  command
      ->add_option("source", arguments->source,
                   "A checkpoint's or run's folder, whose model then forecasts, or a NetCDF file of forecasts")
      ->required();
  command->add_option("--data", arguments->request.fields,
                      "Prefix of prepared fields; if not given, those of the checkpoint's run");
  command->add_option("--split", arguments->split, "The part of the times in which predicted times lie")
      ->check(CLI::IsMember({"train", "validation", "test"}))
      ->capture_default_str();
  add_lead_options(*command, arguments->times);
  command->add_option("--variables", arguments->variables, "Only these variables, with commas")->delimiter(',');
  command->add_option("--csv", arguments->csv, "Write a row for each lead and variable to this file");
  auto* page = command->add_option("--page", arguments->page,
                                   "Write an HTML page with the scores, and with maps of the forecasts of one start");
  command->add_option("--map-start", arguments->page_start, "With --page: the start of the maps; default: the first")
      ->needs(page);
  add_model_options(*command, arguments->request.model);
  command->add_flag("--strict", arguments->strict,
                    "Fail where a forecast lacks a value that the data have, or a start is given twice");
  command->add_flag("--json", arguments->json, "Print one JSON object instead of a table");
  command->footer("docs/weather.md defines each figure.");
  command->callback([arguments] {
    with_json_errors(arguments->json, [&] {
      train::stop_on_signals();
      if (is_file_of_forecasts(*arguments)) return score_file(*arguments);
      score_checkpoint(*arguments);
    });
  });
}

}  // namespace terrace::cli
