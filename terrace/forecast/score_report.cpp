// Puts the figures of scores under their names.
#include "terrace/forecast/score_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "terrace/base/text/csv.h"
#include "terrace/base/text/plural.h"
#include "terrace/forecast/forecast_times.h"

namespace terrace::forecast {
namespace {

using Figure = std::pair<const char*, double>;

std::array<Figure, 10> figures_of_scores(const ScoredVariable& variable) {
  const Scores& scores = variable.scores;
  return {{{"rmse", scores.rmse},
           {"rmse_weatherbench1", scores.rmse_weatherbench1},
           {"rmse_weatherbench2", scores.rmse_weatherbench2},
           {"acc", scores.acc},
           {"bias", scores.bias},
           {"persistence_rmse", scores.persistence_rmse},
           {"persistence_acc", scores.persistence_acc},
           {"climatology_rmse", scores.climatology_rmse},
           {"damped_persistence_rmse", scores.damped_persistence_rmse},
           {"damped_persistence_factor", variable.damping}}};
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

using Count = std::pair<const char*, int64_t>;

std::array<Count, 3> counts_of_scores(const Scores& scores) {
  return {{{"fields_left_out", scores.left_out},
           {"places_left_out", scores.places.without_forecast},
           {"places_without_truth", scores.places.without_truth}}};
}

std::string places_text(int64_t places) { return counted(static_cast<uint64_t>(places), "place"); }

// Tells what is left out: "70 of 140 fields have no place to compare, 21840 places lack a forecast"; "" where nothing
// is.
std::string left_out_text(const Scores& scores) {
  std::vector<std::string> parts;
  if (scores.left_out > 0) {
    parts.push_back(fmt::format("{} of {} have no place to compare", scores.left_out,
                                counted(static_cast<uint64_t>(scores.forecasts), "field")));
  }
  if (scores.places.without_forecast > 0) {
    parts.push_back(places_text(scores.places.without_forecast) + " of the data lack a forecast");
  }
  if (scores.places.without_truth > 0) {
    parts.push_back(places_text(scores.places.without_truth) + " have no value in the data");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Json variables_json(const ScoredLead& lead) {
  Json variables = Json::object();
  for (const ScoredVariable& variable : lead.variables) {
    Json one = {{"units", variable.units}};
    for (const auto& [name, value] : figures_of_scores(variable)) one[name] = number_or_null(value);
    for (const auto& [name, count] : counts_of_scores(variable.scores)) one[name] = count;
    variables[variable.name] = one;
  }
  return variables;
}

int64_t starts_of(const ScoredLead& lead) { return lead.variables.empty() ? 0 : lead.variables[0].scores.forecasts; }

std::string cell_text(double value) { return std::isfinite(value) ? fmt::format("{:.5g}", value) : "-"; }

}  // namespace

ScoreReport score_report(const ForecastScorer& scorer, const data::FieldsDataset& data, std::string source) {
  const data::FieldsDescription& all = data.description();
  ScoreReport report{.source = std::move(source), .fields = data.prefix(), .split = scorer.request().split};
  const ScoreRequest& request = scorer.request();
  for (size_t lead = 0; lead < request.leads.size(); ++lead) {
    ScoredLead scored{.lead = lead_text(all.step, request.leads[lead])};
    scored.hours = lead_seconds(scored.lead).value_or(0) / 3600;
    for (size_t i = 0; i < request.variables.size(); ++i) {
      scored.variables.push_back({.name = request.variables[i],
                                  .units = all.variables[static_cast<size_t>(scorer.number_of(i))].units,
                                  .scores = scorer.scores(lead, i),
                                  .damping = scorer.damping(lead, i)});
    }
    report.leads.push_back(std::move(scored));
  }
  return report;
}

Json score_json(const ScoreReport& report) {
  Json json = {{"source", report.source}, {"data", report.fields}, {"split", report.split}};
  if (report.leads.size() == 1) {
    json["lead"] = report.leads[0].lead;
    json["variables"] = variables_json(report.leads[0]);
  }
  Json leads = Json::object();
  for (const ScoredLead& lead : report.leads) {
    leads[lead.lead] = {{"hours", lead.hours}, {"starts", starts_of(lead)}, {"variables", variables_json(lead)}};
  }
  json["leads"] = leads;
  return json;
}

std::string score_csv(const ScoreReport& report) {
  std::string text = "lead,hours,starts,variable,units";
  for (const auto& [name, value] : figures_of_scores({})) text += fmt::format(",{}", name);
  for (const auto& [name, count] : counts_of_scores({})) text += fmt::format(",{}", name);
  for (const ScoredLead& lead : report.leads) {
    for (const ScoredVariable& variable : lead.variables) {
      text += fmt::format("\n{},{},{},{},{}", lead.lead, lead.hours, variable.scores.forecasts, csv_cell(variable.name),
                          csv_cell(variable.units));
      for (const auto& [name, value] : figures_of_scores(variable)) {
        text += std::isfinite(value) ? fmt::format(",{}", value) : ",";
      }
      for (const auto& [name, count] : counts_of_scores(variable.scores)) text += fmt::format(",{}", count);
    }
  }
  return text + "\n";
}

std::string score_table(const ScoreReport& report) {
  size_t width = std::string_view("variable").size();
  for (const ScoredLead& lead : report.leads) {
    for (const ScoredVariable& one : lead.variables) width = std::max(width, one.name.size() + one.units.size() + 3);
  }
  const auto row = [width](const std::string& name, const std::array<std::string, 6>& cells) {
    std::string text = fmt::format("{:<{}}", name, width);
    for (const std::string& cell : cells) text += fmt::format("  {:>12}", cell);
    return text + "\n";
  };
  std::string text;
  for (const ScoredLead& lead : report.leads) {
    text += fmt::format("{} ahead, {} of the {} part of {}\n", lead.lead,
                        counted(static_cast<uint64_t>(starts_of(lead)), "start"), report.split, report.fields);
    text += row("variable", {"rmse", "acc", "bias", "persistence", "climatology", "damped"});
    for (const ScoredVariable& one : lead.variables) {
      const Scores& scores = one.scores;
      text += row(
          one.units.empty() ? one.name : fmt::format("{} [{}]", one.name, one.units),
          {cell_text(scores.rmse), cell_text(scores.acc), cell_text(scores.bias), cell_text(scores.persistence_rmse),
           cell_text(scores.climatology_rmse), cell_text(scores.damped_persistence_rmse)});
    }
    for (const ScoredVariable& one : lead.variables) {
      const std::string left_out = left_out_text(one.scores);
      if (!left_out.empty()) text += fmt::format("Left out of {}: {}.\n", one.name, left_out);
    }
  }
  return text + "The last three columns are the rmse of persistence, climatology and damped persistence.\n";
}

std::vector<std::string> forecasts_left_out(const ScoreReport& report) {
  std::vector<std::string> sentences;
  for (const ScoredLead& lead : report.leads) {
    for (const ScoredVariable& one : lead.variables) {
      if (one.scores.places.without_forecast == 0) continue;
      sentences.push_back(fmt::format("{} {} ahead: {}", one.name, lead.lead, left_out_text(one.scores)));
    }
  }
  return sentences;
}

}  // namespace terrace::forecast
