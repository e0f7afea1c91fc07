// Replaces cli/training/ in the planner build, which has no torch: the subcommands of that folder are not added.
#include <array>
#include <memory>

#include "cli/build_kind.h"
#include "cli/commands.h"
#include "cli/preparations.h"
#include "cli/preparing_ranks.h"
#include "cli/reporting_process.h"
#include "terrace/base/error.h"
#include "terrace/comm/launcher.h"
#include "terrace/data/kinds_of_data.h"

namespace terrace::cli {

void add_train_command(CLI::App&) {}
void add_evaluate_command(CLI::App&) {}
void add_generate_command(CLI::App&) {}
void add_forecast_command(CLI::App&) {}
void add_score_command(CLI::App&) {}
void add_predict_command(CLI::App&) {}
void add_export_command(CLI::App&) {}
void add_import_command(CLI::App&) {}
void add_verify_command(CLI::App&) {}
void add_rehearse_command(CLI::App&) {}
void add_calibrate_command(CLI::App&) {}
void add_ensemble_command(CLI::App&) {}
void add_doctor_command(CLI::App&) {}

Preparations preparations() { return data::kinds_of_data(); }

std::unique_ptr<data::PrepareRanks> connect_preparing_ranks() {
  if (!comm::started_by_mpi()) return nullptr;
  throw UserError(
      is_reporting_process() ? "the planner build prepares data with one process; start it without a launcher" : "");
}

const BuildKind& build_kind() {
  static constexpr std::array<std::string_view, 13> missing = {
      "train",  "evaluate", "generate",  "forecast", "score",   "export", "import",
      "verify", "rehearse", "calibrate", "ensemble", "predict", "doctor"};
  static constexpr BuildKind kind = {
      .about = "Predicts, simulates and reports runs that train large models. This build, the planner, trains none.",
      .summary = "predict and report the training of large models",
      .version_note = " (planner build, without training)",
      .missing_commands = missing};
  return kind;
}

}  // namespace terrace::cli
