// terrace predict with models of fields.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/forecast/forecast_times.h"
#include "terrace/run/checkpoint_ranks.h"

namespace terrace::cli {

struct FieldsToPredict {
  std::vector<std::filesystem::path> members = {};
  std::string data = {};  // prefix of prepared fields
  std::string split = "test", output = {};
  forecast::ForecastTimes times = {};     // leads and rollout alone
  run::CheckpointRequest resources = {};  // ranks, threads and device
  bool overwrite = false, json = false;
};

// Whether the model of a checkpoint or run forecasts fields. Throws UserError where there is none.
bool forecasts_fields(const std::filesystem::path& checkpoint);

// Writes the predictions of all models for a part of the times into one file, judges them and prints the figures.
// Throws UserError with every problem.
void predict_fields(const FieldsToPredict& asked);

}  // namespace terrace::cli
