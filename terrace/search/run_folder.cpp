// Names the files of a trial that runs as a program.
#include "terrace/search/run_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/files/file.h"
#include "terrace/base/text/units.h"
#include "terrace/config/domain.h"

namespace terrace::search {

std::filesystem::path trial_folder(const std::filesystem::path& search_folder, int64_t trial) {
  return search_folder / "trials" / std::to_string(trial);
}

std::filesystem::path open_trial_folder(const std::filesystem::path& search_folder, const TrialJob& job) {
  std::filesystem::path folder = trial_folder(search_folder, job.trial);
  if (!job.continues()) std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::filesystem::path log_path(const std::filesystem::path& trial_folder) { return trial_folder / "output.log"; }

std::string end_of_log(const std::filesystem::path& trial_folder, size_t most) {
  return end_of_output(log_path(trial_folder), most);
}

ChildLimits trial_limits(const StudySettings& settings) {
  return {.seconds = settings.trial_seconds, .memory_bytes = static_cast<int64_t>(settings.trial_memory)};
}

Outcome failed_outcome(const ChildEnd& end, const std::string& failure, const ChildLimits& limits,
                       const std::filesystem::path& trial_folder) {
  switch (end.how) {
    case ChildEnd::How::over_time:
      return {.failure = "time", .reason = fmt::format("took longer than {}", format_seconds(limits.seconds))};
    case ChildEnd::How::over_memory:
      return {.failure = "oom",
              .reason = fmt::format("held {}, more than trial_memory = {}",
                                    format_bytes(static_cast<double>(end.memory_bytes)),
                                    format_bytes(static_cast<double>(limits.memory_bytes)))};
    case ChildEnd::How::signalled:
      return {.failure = failure,
              .reason = fmt::format("was killed by signal {}: {}", end.code, end_of_log(trial_folder))};
    case ChildEnd::How::ended:
      return {.failure = "stopped", .reason = "ended with the search"};
    case ChildEnd::How::exited:
      break;
  }
  // These are the exit codes of a shell, mpirun and env for a program that is missing or must not be executed.
  const bool was_started = end.code != 126 && end.code != 127;
  return {.failure = was_started ? failure : "start",
          .reason = fmt::format("exit code {}: {}", end.code, end_of_log(trial_folder))};
}

Outcome outcome_of(const Study& study, const Json& given) {
  std::vector<std::string> names;
  for (const auto& [name, value] : given.items()) {
    if (value.is_number() && std::isfinite(value.get<double>())) names.push_back(name);
  }
  const auto is_given = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  for (const Goal& goal : study.settings.goals) {
    if (is_given(goal.figure)) continue;
    return {.failure = "objective",
            .reason = fmt::format("gave no number \"{}\"{}", goal.figure,
                                  names.empty() ? "" : "; it gave " + config::listed(names, "and"))};
  }
  Outcome outcome;
  for (const TrialFigure& figure : study.figures) {
    outcome.figures.push_back(is_given(figure.name) ? given[figure.name].get<double>() : std::nan(""));
  }
  return outcome;
}

}  // namespace terrace::search
