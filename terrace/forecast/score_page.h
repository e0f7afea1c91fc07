// The page of scores: figures by variable and lead, and maps of one start.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/forecast/forecast_scorer.h"
#include "terrace/forecast/score_report.h"

namespace terrace::forecast {

// Maps of what happened, of the forecast and of its error. A map keeps a byte a place: 0 where there is no value, else
// 1 to 255 from the least to the largest number of its scale. Grids of more than 720 longitudes are averaged over
// squares of places.
class ScoreMaps {
 public:
  // Makes maps of the forecasts that begin at the time with the number `start`.
  ScoreMaps(const data::FieldsDataset& data, ScoreRequest request, int64_t start);

  int64_t start() const { return start_; }
  void add(size_t lead, size_t variable, std::span<const float> forecast);
  // Returns {"start", "rows", "columns", "south", "north", "west", "east", "list": [{"variable", "units", "lead",
  // "time", "least", "most", "limit", "truth", "forecast", "error"}]}: truth and forecast are on the scale from least
  // to most, the error from -limit to limit; maps are in base64, from south to north.
  Json json() const;

 private:
  std::vector<float> averaged(std::span<const float> field) const;

  const data::FieldsDataset& data_;
  ScoreRequest request_;
  int64_t start_;
  int64_t block_;  // places on a side of the square that is averaged
  int64_t rows_, columns_;
  std::vector<Json> list_;
};

// Returns the number of the time that --map-start names, or without it the first of the starts whose forecasts are
// scored, at all leads where there is one. Throws UserError where the forecasts do not begin at that time.
int64_t map_start(const std::string& text, const ForecastScorer& scorer, const data::FieldsDataset& data,
                  const std::vector<int64_t>& starts);

// Returns the whole page as HTML.
std::string score_page(const ScoreReport& report, const Json& maps);

}  // namespace terrace::forecast
