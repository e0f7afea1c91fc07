// The part of a family whose models forecast prepared fields of weather and climate.
#pragma once

#include "terrace/config/family.h"
#include "terrace/data/fields/fields_source.h"

namespace terrace::models {

// All functions are called with configurations of the family. [data] of its configurations is a data::FieldsConfig, and
// Model::outputs() gives "forecast" [B, Vo, H, W] in fp32: the normalised outputs of a batch that
// data::FieldsSource::forecast_batch() made.
class ForecastOfFamily {
 public:
  virtual ~ForecastOfFamily() = default;

  // The fields that the model reads and predicts.
  virtual data::FieldsRequest fields(const config::Config& config) const = 0;
  // Whether the lead is an input of the model, so that it may lie between two that the model was trained for.
  virtual bool knows_lead(const config::Config& config) const = 0;
  // Whether the model predicts anomalies from a climatology, which then is that of the training data.
  virtual bool reads_climatology(const config::Config& config) const = 0;
};

// Throws UserError, with what can be done with models of the family instead, if they make no forecasts.
const ForecastOfFamily& forecast_of_family(const config::Config& config);

}  // namespace terrace::models
