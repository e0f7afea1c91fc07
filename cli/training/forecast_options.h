// Options that the commands with forecasts share.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/training/launched_ranks.h"
#include "terrace/data/fields/forecast_times.h"
#include "terrace/train/forecast_checkpoint.h"

namespace terrace::cli {

void add_lead_options(CLI::App& command, data::ForecastTimes& times);
void add_model_options(CLI::App& command, train::CheckpointRequest& model);

// Makes the forecasts and ends the ranks' connection. Throws UserError on all ranks, with text on one, for mistakes and
// where a stop was requested.
void forecast_and_leave(const train::ForecastRequest& request, LaunchedRanks& ranks);

}  // namespace terrace::cli
