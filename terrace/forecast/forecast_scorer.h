// Scores forecasts of a part of the times of prepared fields.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "terrace/data/fields/fields_dataset.h"
#include "terrace/forecast/scores.h"

namespace terrace::forecast {

// The forecasts that are scored.
struct ScoreRequest {
  std::string split = "test";
  std::vector<std::string> variables = {};  // of the dataset
  std::vector<int64_t> leads = {};          // steps of the data
};

// The scores of each variable at each lead, beside those of persistence, of the climatology of the dataset and of
// damped persistence: the anomaly at the start times one coefficient for each variable and lead, which is fitted on all
// pairs of the training part, each place weighted by the cosine of its latitude.
class ForecastScorer {
 public:
  // The dataset must outlive the object. Fits damped persistence, which reads the training part once; `look` is called
  // with the number of the training times done, and may throw to stop. Throws UserError for a split that the data lack.
  ForecastScorer(const data::FieldsDataset& data, ScoreRequest request, const std::function<void(uint64_t)>& look);

  // Returns whether the time that is predicted lies in the split; the start may lie before the split.
  bool is_scored(int64_t start, size_t lead) const;
  // Adds a forecast [latitudes, longitudes] in physical units; `start` is the number of a time, `lead` and `variable`
  // are indices of the request.
  void add(int64_t start, size_t lead, size_t variable, std::span<const float> forecast);

  const ScoreRequest& request() const { return request_; }
  Scores scores(size_t lead, size_t variable) const;
  // Returns the coefficient of damped persistence; NaN where the data have no training part or no climatology.
  double damping(size_t lead, size_t variable) const { return dampings_[lead][variable]; }
  // Returns the climatology of a variable for a time; empty where the data have none.
  std::span<const float> climatology_at(int64_t time, size_t variable) const;
  int64_t number_of(size_t variable) const { return numbers_[variable]; }

 private:
  void fit_damping(const std::function<void(uint64_t)>& look);
  ScoredFields fields_of(int64_t start, int64_t target, size_t variable) const;

  const data::FieldsDataset& data_;
  ScoreRequest request_;
  data::TimeSplit split_;
  GridWeights weights_;
  std::vector<int64_t> numbers_;  // of the variables in the dataset
  std::vector<std::vector<double>> dampings_;
  std::vector<std::vector<ScoreSums>> sums_;  // [leads][variables]
};

}  // namespace terrace::forecast
