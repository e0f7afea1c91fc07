// Scores the forecasts of a file, of this or another program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "terrace/data/fields/fields_dataset.h"
#include "terrace/forecast/forecast_file.h"

namespace terrace::forecast {

// The places of a file's forecasts in a dataset.
struct MatchedForecasts {
  std::vector<int64_t> starts = {};          // for each start of the file its number in the dataset; -1: it has none
  std::vector<int64_t> leads = {};           // steps of the data, ascending
  std::vector<size_t> lead_places = {};      // the places of these leads in the file
  std::vector<std::string> variables = {};   // that both the file and the dataset have
  std::vector<size_t> variable_places = {};  // the places of these variables in the file
};

// The forecasts that a user wants of a file; none: everything.
struct WantedForecasts {
  std::vector<std::string> variables = {};
  std::vector<std::string> leads = {};  // "72h"
};

// Matches the forecasts of a file with a dataset. Throws UserError with every problem: another grid, calendar or units,
// variables that the dataset or the file lacks, leads that are no multiple of the step of the data, that the file lacks
// or has twice. Leads of 0 are left out.
MatchedForecasts match_forecasts(const ForecastContents& contents, const data::FieldsDataset& data,
                                 const WantedForecasts& wanted);

// Leaves starts of the file that repeat an earlier one, with the same forecasts to the bit, out of the matched ones.
// Returns their number. Throws UserError with the starts where the forecasts of one time differ.
int64_t leave_out_repeats(ForecastFile& file, const data::FieldsDataset& data, MatchedForecasts& matched);

}  // namespace terrace::forecast
