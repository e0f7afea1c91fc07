// Adds the options that the commands with forecasts share, and runs models.
#include "cli/training/forecast_options.h"

#include <fmt/format.h>

#include <optional>

#include "cli/ranges.h"
#include "terrace/base/error.h"
#include "terrace/forecast/forecast_header.h"
#include "terrace/train/agreement.h"

namespace terrace::cli {

void add_lead_options(CLI::App& command, forecast::ForecastTimes& times) {
  command
      .add_option("--lead", times.leads,
                  "How far ahead, such as 72h, 3d or 1mo; several with commas; if not given, the leads of the training")
      ->delimiter(',');
  command.add_option(
      "--rollout", times.rollout,
      "Predict in steps of this length, each from the forecast before it, with every step up to the lead");
}

void add_model_options(CLI::App& command, run::CheckpointRequest& model) {
  command
      .add_option("--ranks", model.ranks,
                  "Number of ranks, as threads of this process; under mpirun or srun each process is a rank")
      ->check(positive());
  command.add_option("--device", model.device, "Where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--threads", model.threads, "CPU threads of each rank; 0: the cores, divided among the ranks")
      ->check(thread_count())
      ->capture_default_str();
}

forecast::ForecastHeader forecast_header(const run::ForecastModel& model, const forecast::ForecastPlan& plan) {
  return forecast::forecast_header(model.source, plan,
                                   fmt::format("terrace, {} at step {}", model.checkpoint.string(), model.step));
}

void run_and_leave(LaunchedRanks& ranks, const std::function<bool()>& run) {
  const bool is_reporting_rank = ranks.is_reporting_rank();
  std::optional<train::Refusal> refusal;
  bool finished = false;
  try {
    finished = run();
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  }
  // All ranks are done, so an error from here on leaves no other rank waiting.
  ranks.world.reset();
  if (refusal) throw UserError(*refusal);
  if (!finished) throw UserError(is_reporting_rank ? "stopped on request, without a result" : "", ExitCode::stopped);
}

void forecast_and_leave(const run::ForecastRequest& request, LaunchedRanks& ranks) {
  run_and_leave(ranks, [&] { return run::forecast_checkpoint(request); });
}

}  // namespace terrace::cli
