// Starts runs as threads, under mpirun or as steps of a Slurm job, and reads what they wrote.
#include "terrace/search/training_runs.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/system/launch_command.h"
#include "terrace/config/domain.h"
#include "terrace/models/planned_families.h"
#include "terrace/observe/summary.h"
#include "terrace/search/run_folder.h"

namespace terrace::search {
namespace {

std::filesystem::path run_of(const std::filesystem::path& trial_folder) { return trial_folder / "run"; }

}  // namespace

TrainingRuns::TrainingRuns(const Study& study, std::filesystem::path folder, std::string program)
    : study_(study), folder_(std::move(folder)), program_(std::move(program)) {}

config::Config TrainingRuns::configuration_for(const TrialJob& job) const {
  std::vector<std::string> settings = study_.space.settings(job.point);
  settings.push_back("checkpoint.folder=" + config::toml_text(run_of(trial_folder(folder_, job.trial)).string()));
  return config::load(study_.settings.config, models::planned_families(), settings);
}

std::vector<std::string> TrainingRuns::command_of(const TrialJob& job, const std::filesystem::path& config_file,
                                                  int64_t train_steps) const {
  std::vector<std::string> command =
      launch_command(chosen_launcher(study_.settings.launcher), devices_of(study_, job.point),
                     study_.settings.launcher_options, {program_, "train", config_file.string()});
  if (job.continues()) command.insert(command.end(), {"--resume", "auto"});
  if (job.budget > 0 && job.budget < train_steps) {
    command.insert(command.end(), {"--stop-after", std::to_string(job.budget)});
  }
  return command;
}

Outcome TrainingRuns::run(const TrialJob& job) {
  const config::Config config = configuration_for(job);
  const std::filesystem::path folder = open_trial_folder(folder_, job);
  const std::filesystem::path config_file = folder / "config.toml";
  write_text_atomically(config_file, config::dump(config));
  const ChildLimits limits = trial_limits(study_.settings);
  const ChildEnd end = children_.run(command_of(job, config_file, config.train.steps), log_path(folder), limits);
  const bool was_cut = job.budget > 0 && job.budget < config.train.steps;
  const auto ended_with = [&](ExitCode code) {
    return end.how == ChildEnd::How::exited && end.code == static_cast<int>(code);
  };
  Outcome outcome;
  if (!was_cut && ended_with(ExitCode::done)) {
    outcome = outcome_of(study_, observe::summarize_run(run_of(folder)));
  } else if (ended_with(ExitCode::stopped)) {
    // A signal or train.time_limit may have stopped it before the step at which it was to stop.
    const Json summary = observe::summarize_run(run_of(folder));
    const int64_t wanted = was_cut ? job.budget : config.train.steps;
    const auto reached = summary.at("steps").get<int64_t>();
    outcome = was_cut && reached >= wanted
                  ? outcome_of(study_, summary)
                  : Outcome{.failure = "stopped",
                            .reason = fmt::format("stopped by a signal or train.time_limit after step {} of {}",
                                                  reached, wanted)};
  } else {
    const char* failure = ended_with(ExitCode::bad_input)    ? "layout"
                          : ended_with(ExitCode::infeasible) ? "oom"
                                                             : "error";
    outcome = failed_outcome(end, failure, limits, folder);
  }
  if (job.budget == 0 && !study_.settings.keep_checkpoints) remove_checkpoints(job.trial);
  return outcome;
}

void TrainingRuns::remove_checkpoints(int64_t trial) const {
  const std::filesystem::path run = run_of(trial_folder(folder_, trial));
  if (!std::filesystem::exists(run)) return;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (entry.path().filename().string().starts_with("step_")) std::filesystem::remove_all(entry.path());
  }
}

void TrainingRuns::finish(const std::vector<int64_t>& best) {
  if (study_.settings.keep_checkpoints || !std::filesystem::exists(folder_ / "trials")) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "trials")) {
    const int64_t trial = std::atoll(entry.path().filename().c_str());
    if (std::ranges::find(best, trial) == best.end()) remove_checkpoints(trial);
  }
}

}  // namespace terrace::search
