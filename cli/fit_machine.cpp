// Reads the runs, fits, and writes the description.
#include "cli/fit_machine.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/measured_runs.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/score/fit/fit_report.h"

namespace terrace::cli {
namespace {

void check_file(const std::string& file, const PlannedTarget& planned) {
  if (file.empty()) return;
  if (!file.ends_with(".toml")) {
    throw UserError::of("--write {} must end in .toml: it is the description of the machine", file);
  }
  if (file == planned.machine) {
    throw UserError::of("--write {} would replace the description itself; name another file", file);
  }
}

}  // namespace

CLI::Option* add_fit_option(CLI::App& command, std::vector<std::string>& sources) {
  return command.add_option("--fit", sources,
                            "Instead of planning a configuration: set the rates of --machine by runs on it, folders of "
                            "finished runs or CSV files as of --score; --write names the file of the description");
}

void print_fit(const CLI::App& command, const PlannedTarget& planned, const std::vector<std::string>& sources,
               const std::string& file, bool json) {
  check_file(file, planned);
  const score::Fit fit = score::fit_machine(measured_runs(command, planned, sources));
  const std::string name = std::filesystem::path(file).stem().string();
  if (!file.empty()) write_text_atomically(file, score::description_of(fit, name));
  if (json) {
    Json object = score::json_of(fit);
    object["written"] = file.empty() ? Json(nullptr) : Json(file);
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print("{}", score::text_of(fit));
  if (!file.empty()) fmt::print("wrote {}; give it as --machine {}\n", file, file);
}

}  // namespace terrace::cli
