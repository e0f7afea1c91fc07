// Chooses the forecasts that are made of prepared fields: their starts and leads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/data/fields/fields_source.h"

namespace terrace::forecast {

// The starts and leads of forecasts as a user writes them.
struct ForecastTimes {
  std::vector<std::string> starts = {};  // dates, each of one time of the data: "2017-01-01T06"
  std::vector<std::string> range = {};   // first and last date, and the time between two starts; or none
  std::vector<std::string> leads = {};   // "72h", "1mo"
  std::string rollout = {};              // the lead of each step, or "": each lead is predicted at once
};

struct ForecastPlan {
  std::vector<int64_t> starts = {};  // numbers of times of the data, ascending, each once
  std::vector<int64_t> leads = {};   // steps of the data, ascending, each once
  int64_t rollout = 0;               // steps of the data; 0: each lead is predicted at once
};

// Returns the times between the first and the last second of two dates: numbers first .. end - 1. Throws UserError for
// what is no date.
std::pair<int64_t, int64_t> times_between(const data::FieldsDescription& all, const std::string& from,
                                          const std::string& to);

// Returns the seconds of a lead such as "72h", "3d" or, with 30.4375 days a month, "2mo" or "1y"; no value for what is
// no lead.
std::optional<double> lead_seconds(const std::string& text);
// Returns the lead in the words that lead_seconds() reads: "72h", "1mo", for yearly data "2y".
std::string lead_text(const data::TimeStep& step, int64_t steps);
// Returns the steps of the data for each lead, ascending, each once. Throws UserError, with leads that are possible,
// for what is no multiple of the step.
std::vector<int64_t> lead_steps(const std::string& flag, const std::vector<std::string>& leads,
                                const data::FieldsDescription& description, const std::string& prefix);

// Plans forecasts. With a rollout, every multiple of its step up to the longest lead is a lead. `knows_lead` says that
// the lead is an input of the model, so that it may lie between two that the model was trained for; else it must be one
// of these. Throws UserError with every problem.
ForecastPlan plan_forecasts(const data::FieldsSource& source, const ForecastTimes& times, bool knows_lead);
// Plans forecasts as plan_forecasts() does, but uses the leads alone: the starts are all from which a time of the split
// is predicted.
ForecastPlan plan_forecasts_of_split(const data::FieldsSource& source, const std::string& split,
                                     const ForecastTimes& times, bool knows_lead);

}  // namespace terrace::forecast
