// Options that the commands with forecasts share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/training/launched_ranks.h"
#include "terrace/forecast/forecast_file.h"
#include "terrace/forecast/forecast_times.h"
#include "terrace/run/forecast_checkpoint.h"

namespace terrace::cli {

void add_lead_options(CLI::App& command, forecast::ForecastTimes& times);
void add_model_options(CLI::App& command, run::CheckpointRequest& model);

// The header of a file of these forecasts.
forecast::ForecastHeader forecast_header(const run::ForecastModel& model, const forecast::ForecastPlan& plan);

// Ends the ranks' connection behind `run`, which returns false where a stop was requested. Throws UserError on all
// ranks, with text on one, for mistakes and where a stop was requested.
void run_and_leave(LaunchedRanks& ranks, const std::function<bool()>& run);
// Makes the forecasts and ends the ranks' connection. Throws UserError on all ranks, with text on one, for mistakes and
// where a stop was requested.
void forecast_and_leave(const run::ForecastRequest& request, LaunchedRanks& ranks);

}  // namespace terrace::cli
