// The scores of forecasts as JSON, CSV and a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/forecast/forecast_scorer.h"

namespace terrace::forecast {

struct ScoredVariable {
  std::string name = {}, units = {};
  Scores scores = {};
  double damping = 0;  // NaN where it is not known
};

struct ScoredLead {
  std::string lead = {};  // "72h"
  double hours = 0;       // a month has 30.4375 days
  std::vector<ScoredVariable> variables = {};
};

struct ScoreReport {
  std::string source = {};  // what was scored: a checkpoint or a file of forecasts
  std::string fields = {};  // the prefix of the dataset
  std::string split = {};
  std::vector<ScoredLead> leads = {};
};

ScoreReport score_report(const ForecastScorer& scorer, const data::FieldsDataset& data, std::string source);

// Returns {"source", "data", "split", "leads": {"72h": {"hours", "starts", "variables": {NAME: {"units", "rmse",
// ..}}}}}; with a single lead its "variables" stand outside of "leads" too. Figures that are not known are null.
// "fields_left_out" are the forecasts of a variable of which no place could be compared, "places_left_out" the places,
// of all forecasts, where the data have a value and the forecast has none, and "places_without_truth" those where the
// data have none.
Json score_json(const ScoreReport& report);
// Returns a table with a row for each lead and variable.
std::string score_csv(const ScoreReport& report);
// Returns a table for a terminal, with the most important columns.
std::string score_table(const ScoreReport& report);

// Returns a sentence for each lead and variable whose forecasts lack values that the data have; none where no forecast
// does.
std::vector<std::string> forecasts_left_out(const ScoreReport& report);

}  // namespace terrace::forecast
