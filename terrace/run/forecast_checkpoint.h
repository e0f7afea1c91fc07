// Forecasts prepared fields with the model of a checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/data/fields/fields_source.h"
#include "terrace/forecast/forecast_times.h"
#include "terrace/run/checkpoint_ranks.h"

namespace terrace::run {

// The model and the fields that it reads.
struct ForecastModel {
  std::filesystem::path checkpoint;
  int64_t step = 0;
  const data::FieldsSource& source;  // with the statistics of the checkpoint
  bool knows_lead = false;           // models/forecast_of_family.h
};

struct ForecastRequest {
  CheckpointRequest model;
  std::string fields = {};  // the prefix of prepared fields; "": those of the run
  // Says which forecasts are wanted. Called once in each process before anything is built; throws UserError.
  std::function<forecast::ForecastPlan(const ForecastModel&)> plan;
  // `begin` and `take` receive the forecasts. They are called on the first rank alone: once before the first one, and
  // for each start and lead, by their places in the plan, with the outputs [Vo, latitudes, longitudes] in physical
  // units.
  std::function<void(const ForecastModel&, const forecast::ForecastPlan&)> begin;
  std::function<void(size_t start, size_t lead, std::span<const float> fields)> take;
};

// Starts are divided among the data-parallel ranks and computed in the micro-batches of the run, so that memory does
// not grow with their number. Without a rollout each lead is predicted at once, else the forecast is fed back as the
// next input. Places that the data lack at a start are NaN in its forecasts. Shows progress. False where a stop was
// requested. Throws UserError for names, grids, units and steps that are not those of the checkpoint's data; with a
// launcher, all ranks throw a Refusal.
bool forecast_checkpoint(const ForecastRequest& request);

}  // namespace terrace::run
