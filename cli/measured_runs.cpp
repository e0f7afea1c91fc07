// Tells tables from folders, and options that were given from defaults.
#include "cli/measured_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "terrace/base/terminal/log.h"
#include "terrace/score/run_of_folder.h"
#include "terrace/score/run_of_row.h"

namespace terrace::cli {

std::vector<score::PublishedRun> measured_runs(const CLI::App& command, const PlannedTarget& planned,
                                               const std::vector<std::string>& sources) {
  const auto given = [&](const char* option, const std::string& value) {
    return command.get_option(option)->count() > 0 ? value : std::string();
  };
  const score::Given of_all{.machine = given("--machine", planned.machine),
                            .software = given("--software", planned.software),
                            .overrides = planned.overrides};
  std::vector<score::PublishedRun> runs;
  for (const std::string& source : sources) {
    if (score::is_run_folder(source)) {
      runs.push_back(score::run_of_folder(source, of_all));
      continue;
    }
    const score::PublishedTable table(source);
    if (!table.unknown().empty()) {
      log_info("{}: these columns count for nothing: {}", source, fmt::join(table.unknown(), ", "));
    }
    const std::vector<score::PublishedRun> of_table = score::runs_of(table, of_all);
    runs.insert(runs.end(), of_table.begin(), of_table.end());
  }
  return runs;
}

}  // namespace terrace::cli
