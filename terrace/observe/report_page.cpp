// Puts the data of runs into the page as one JSON object, which the page's own scripts draw.
#include "terrace/observe/report_page.h"

#include <fmt/format.h>

#include <cmath>

#include "terrace/observe/figures.h"
#include "terrace/observe/html_page.h"
#include "terrace/observe/report_template.h"
#include "terrace/observe/run_settings.h"
#include "terrace/observe/summary.h"

namespace terrace::observe {
namespace {

namespace fs = std::filesystem;

std::optional<StepRecord> read_if_there(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  return read_step_record(path);
}

Json losses_json(const LossHistory& losses) {
  return {{"training", losses.training}, {"validation", losses.validation}};
}

Json curves_json(const std::vector<StepCurve>& curves) {
  Json list = Json::array();
  for (const StepCurve& curve : curves) list.push_back({{"key", curve.key}, {"points", curve.points}});
  return list;
}

std::vector<StepCurve> curves_of(const RunMetrics& metrics) {
  std::vector<StepCurve> curves;
  const auto add = [&](const std::string& key, double StepMetrics::*number) {
    StepCurve curve{.key = key};
    for (const auto& [step, line] : metrics.steps) {
      if (std::isfinite(line.*number)) curve.points.emplace_back(step, line.*number);
    }
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  };
  add("learning_rate", &StepMetrics::learning_rate);
  add("gradient_norm", &StepMetrics::gradient_norm);
  add(metrics.names.items + "_per_second", &StepMetrics::items_per_second);
  return curves;
}

std::vector<std::pair<double, double>> noise_scales_of(const RunMetrics& metrics) {
  std::vector<std::pair<double, double>> points;
  for (const auto& [step, line] : metrics.steps) {
    if (line.noise_scale && std::isfinite(*line.noise_scale)) points.emplace_back(step, *line.noise_scale);
  }
  return points;
}

// Notes of a run, with those on how it gets the records that it lacks; a prediction alone lacks none.
Json notes_of(const ReportedRun& run) {
  Json notes = run.notes;
  if (run.figures && run.figures->contains("dead_outputs")) {
    for (const Json& output : run.figures->at("dead_outputs")) {
      notes.push_back(fmt::format("{}: {}.", run.name, dead_output_text(output.get<std::string>())));
    }
  }
  if (!run.losses || (run.predicted && run.measured)) return notes;
  const std::string lacking = run.predicted  ? fmt::format("the record of a measured step, {}", measured_step_file)
                              : run.measured ? fmt::format("the record of a predicted step, {}", predicted_step_file)
                                             : fmt::format("the records of a predicted and a measured step, {} and {}",
                                                           predicted_step_file, measured_step_file);
  notes.push_back(
      fmt::format("{} lacks {}: set observe.machine to the name of a machine, such as observe.machine = "
                  "\"laptop\", and train again.",
                  run.name, lacking));
  return notes;
}

Json plan_json(const PlanStatements& plan) {
  Json changes = Json::array();
  for (const PlannedChange& one : plan.changes) {
    changes.push_back({{"settings", one.settings}, {"step_seconds", one.step_seconds}, {"gain", one.gain}});
  }
  return {{"fits", plan.fits},         {"verdict", plan.verdict}, {"limit", plan.limit}, {"facts", plan.facts},
          {"warnings", plan.warnings}, {"command", plan.command}, {"changes", changes}};
}

Json run_json(const ReportedRun& run) {
  return {{"name", run.name},
          {"figures", run.figures.value_or(nullptr)},
          {"losses", run.losses ? losses_json(*run.losses) : nullptr},
          {"curves", curves_json(run.curves)},
          {"noise_scales", run.noise_scales},
          {"predicted", run.predicted ? json_of(*run.predicted) : nullptr},
          {"measured", run.measured ? json_of(*run.measured) : nullptr},
          {"state", run.state.value_or(nullptr)},
          {"plan", run.plan ? plan_json(*run.plan) : nullptr},
          {"notes", notes_of(run)}};
}

}  // namespace

ReportedRun read_reported_run(const fs::path& folder) {
  Json figures = summarize_run(folder);
  figures.erase("files");  // there may be thousands
  const RunMetrics metrics = read_metrics(folder);
  return {.name = run_name(folder),
          .figures = figures,
          .losses = losses_of(metrics),
          .curves = curves_of(metrics),
          .noise_scales = noise_scales_of(metrics),
          .predicted = read_if_there(folder / predicted_step_file),
          .measured = read_if_there(folder / measured_step_file)};
}

Json report_data(const std::string& title, const std::vector<ReportedRun>& runs) {
  Json list = Json::array();
  for (const ReportedRun& run : runs) list.push_back(run_json(run));
  return {{"title", title}, {"runs", list}};
}

std::string report_page(const std::string& title, const std::vector<ReportedRun>& runs) {
  return html_page(report_template(), title, report_data(title, runs));
}

}  // namespace terrace::observe
