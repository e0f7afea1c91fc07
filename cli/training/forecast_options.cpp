// Adds the options that the commands with forecasts share, and runs the model.
#include "cli/training/forecast_options.h"

#include <optional>

#include "cli/ranges.h"
#include "terrace/base/error.h"
#include "terrace/train/agreement.h"

namespace terrace::cli {

void add_lead_options(CLI::App& command, data::ForecastTimes& times) {
  command
      .add_option("--lead", times.leads,
                  "How far ahead, such as 72h, 3d or 1mo; several with commas; if not given, the leads of the training")
      ->delimiter(',');
  command.add_option(
      "--rollout", times.rollout,
      "Predict in steps of this length, each from the forecast before it, with every step up to the lead");
}

void add_model_options(CLI::App& command, train::CheckpointRequest& model) {
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

void forecast_and_leave(const train::ForecastRequest& request, LaunchedRanks& ranks) {
  const bool is_reporting_rank = ranks.is_reporting_rank();
  std::optional<train::Refusal> refusal;
  bool finished = false;
  try {
    finished = train::forecast_checkpoint(request);
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  }
  // All ranks are done, so an error from here on leaves no other rank waiting.
  ranks.world.reset();
  if (refusal) throw UserError(*refusal);
  if (!finished) throw UserError(is_reporting_rank ? "stopped on request, without a result" : "", ExitCode::stopped);
}

}  // namespace terrace::cli
