// terrace doctor: checks a node, or the nodes of a launch, for what makes runs fail or slow.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/reporting_process.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/machine_measurement.h"
#include "cli/training/node_check.h"
#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"
#include "terrace/doctor/checks.h"
#include "terrace/doctor/node_view.h"
#include "terrace/machine/machine.h"
#include "terrace/measure/rank_speed.h"

namespace terrace::cli {
namespace {

struct DoctorArguments {
  std::string root, folder, machine, device = "auto";
  bool json = false, measure = false;
};

// Objects that the arguments name, read by each process of a launch; one of the processes says a mistake.
struct Named {
  doctor::NodeView view;
  std::optional<machine::Machine> machine = {};
};

Named read_named(const DoctorArguments& arguments) {
  try {
    Named named{.view = arguments.root.empty() ? own_node(true) : doctor::node_below(arguments.root)};
    if (!arguments.machine.empty()) named.machine = machine::load(arguments.machine);
    return named;
  } catch (const UserError& error) {
    throw UserError(is_reporting_process() ? error.what() : "", error.code);
  }
}

doctor::Speed speed_of(const measure::RankSpeed& speed) {
  return {.product_flops = speed.product_flops,
          .product_spread = speed.product_spread,
          .longest_product = speed.longest_product,
          .copied_bytes = speed.copied_bytes,
          .links = speed.links};
}

// The measured speed beside that of the machine's description, if there is one.
MeasuredSpeed measured_speed(const std::string& on_device, const std::optional<machine::Machine>& machine,
                             const LaunchedRanks& ranks) {
  MeasuredSpeed speed;
  on_measuring_ranks({.device = on_device}, ranks, [&](comm::World& world, const at::Device& device) {
    const measure::RankSpeed measured = measure::measure_rank_speed(world, device);
    speed.measured = speed_of(measured);
    if (!machine) return;
    const machine::Machine of_job = machine::for_job(*machine, {}, world.size());
    speed.described = speed_of(measure::described_speed(of_job, device, world.rank(), measured));
  });
  return speed;
}

void examine(const DoctorArguments& arguments) {
  const Named named = read_named(arguments);
  LaunchedRanks ranks = connect(1);
  const bool is_reporting_rank = ranks.is_reporting_rank();
  const MeasuredSpeed speed =
      arguments.measure ? measured_speed(arguments.device, named.machine, ranks) : MeasuredSpeed{};
  const doctor::Diagnosis diagnosis = diagnose_node(named.view, ranks, {.run_folder = arguments.folder}, speed);
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
  CLI::Option* measure = command->add_flag(
      "--measure", arguments->measure,
      "Also measure for some seconds how fast each rank computes, copies and sends, and name those that are slow");
  command
      ->add_option("--machine", arguments->machine,
                   "With --measure: compare with this description too, a name or a file as terrace calibrate writes")
      ->needs(measure);
  command
      ->add_option("--device", arguments->device,
                   "With --measure: \"cpu\", \"cuda\", or \"auto\": a GPU if there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->needs(measure);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "Start it as the run will be started: under mpirun or srun the readings of all ranks are compared.\n"
      "The exit code is 0 if nothing is found and 1 if something is; checks that do not apply are listed.");
  command->callback([arguments] { examine(*arguments); });
}

}  // namespace terrace::cli
