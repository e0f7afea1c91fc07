// terrace doctor: checks a node, or the nodes of a launch, for what makes runs fail or slow.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/reporting_process.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/node_check.h"
#include "terrace/base/error.h"
#include "terrace/base/plural.h"
#include "terrace/doctor/checks.h"
#include "terrace/doctor/node_view.h"

namespace terrace::cli {
namespace {

struct DoctorArguments {
  std::string root, folder;
  bool json = false;
};

doctor::NodeView view_of(const DoctorArguments& arguments) {
  if (arguments.root.empty()) return own_node(true);
  try {
    return doctor::node_below(arguments.root);
  } catch (const UserError& error) {
    throw UserError(is_reporting_process() ? error.what() : "", error.code);
  }
}

void examine(const DoctorArguments& arguments) {
  const doctor::NodeView view = view_of(arguments);
  LaunchedRanks ranks = connect(1);
  const bool is_reporting_rank = ranks.is_reporting_rank();
  const doctor::Diagnosis diagnosis = diagnose_node(view, ranks, {.run_folder = arguments.folder});
  ranks.world.reset();
  if (is_reporting_rank) {
    fmt::print("{}", arguments.json ? doctor::json_of(diagnosis).dump() + "\n" : doctor::text_of(diagnosis));
  }
  if (diagnosis.findings.empty()) return;
  const std::string text = counted(diagnosis.findings.size(), "finding") + "; standard output says what mends them";
  throw UserError(is_reporting_rank ? text : "", ExitCode::failure);
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Check this node, or those of a launch, for settings with which runs fail or are slow");
  command->add_option("--root", arguments->root,
                      "Read the files of another node from copies of its /sys, /proc and /etc in this folder; the "
                      "environment is that of this process");
  command->add_option("--folder", arguments->folder,
                      "Folder of a run: check its file system, its age, and whether a save fits into the time left");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "Start it as the run will be started: under mpirun or srun the readings of all ranks are compared.\n"
      "The exit code is 0 if nothing is found and 1 if something is; checks that do not apply are listed.");
  command->callback([arguments] { examine(*arguments); });
}

}  // namespace terrace::cli
