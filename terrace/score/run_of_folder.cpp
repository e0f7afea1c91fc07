// Reads run.json, resolved.toml and metrics.jsonl.
#include "terrace/score/run_of_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/config/family.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/config/phases.h"
#include "terrace/data/order/batch_ramp.h"
#include "terrace/models/planned_families.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/run_settings.h"

namespace terrace::score {
namespace {

constexpr int64_t warm_up_steps = 3;

// The times of the steps that have the batch and the phase of the last one.
std::vector<double> step_times(const observe::RunMetrics& metrics, const config::Config& config) {
  std::vector<double> seconds;
  if (metrics.steps.empty()) return seconds;
  const data::BatchRamp ramp(config.train, config.phases);
  const int64_t last = metrics.steps.rbegin()->first, first = metrics.steps.begin()->first;
  for (const auto& [number, step] : metrics.steps) {
    const bool is_alike = ramp.batch_size(number) == ramp.batch_size(last) &&
                          config::phase_at(config, number) == config::phase_at(config, last);
    if (is_alike && number >= first + warm_up_steps && std::isfinite(step.step_seconds)) {
      seconds.push_back(step.step_seconds);
    }
  }
  return seconds;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The number of ranks that the run's facts state; 0 if there is none.
int64_t ranks_of(const std::filesystem::path& folder) {
  try {
    const Json facts = Json::parse(read_text(folder / "run.json"));
    return facts.value("ranks", int64_t{0});
  } catch (const Json::exception& error) {
    throw UserError::of("{} cannot be read: {}", (folder / "run.json").string(), error.what());
  }
}

}  // namespace

bool is_run_folder(const std::filesystem::path& path) { return std::filesystem::is_directory(path); }

PublishedRun run_of_folder(const std::filesystem::path& folder, const Given& given) {
  const observe::RunMetrics metrics = observe::read_metrics(folder);
  PublishedRun run{.table = folder.string(), .name = observe::run_name(folder), .machine = given.machine};
  const auto refuse = [&](std::string problem) { run.problems.push_back(std::move(problem)); };
  if (given.machine.empty()) refuse("a run's folder does not say on which machine it was; name it by --machine");
  run.target.devices = ranks_of(folder);
  if (run.target.devices == 0) {
    refuse("run.json has no \"ranks\"; an earlier version made the run: add the number of its ranks there");
  }
  const std::filesystem::path file = folder / "resolved.toml";
  try {
    config::Config config =
        config::load_for_plan(file, models::planned_families(), given.overrides, config::IdleKeys::accept);
    const std::vector<double> seconds = step_times(metrics, config);
    if (seconds.empty()) {
      refuse(fmt::format("no step to compare: of {} steps the first {} do not count",
                         static_cast<int64_t>(metrics.steps.size()), warm_up_steps));
    } else {
      run.seconds = median(seconds);
      config = config::in_phase(config, config::phase_at(config, metrics.steps.rbegin()->first));
    }
    run.model = config.family->name;
    run.configs.push_back(std::move(config));
    if (!given.machine.empty()) run.target.machine = machine::load(given.machine);
    run.target.software = machine::load_software(given.software.empty() ? "terrace" : given.software);
  } catch (const UserError& error) {
    refuse(error.what());
  }
  return run;
}

}  // namespace terrace::score
