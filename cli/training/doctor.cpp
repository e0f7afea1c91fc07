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
#include "terrace/comm/threads/threads.h"
#include "terrace/doctor/checks.h"
#include "terrace/doctor/node_view.h"
#include "terrace/machine/machine.h"
#include "terrace/measure/rank_speed.h"
#include "terrace/train/agreement.h"
#include "terrace/train/device.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/run.h"

namespace terrace::cli {
namespace {

struct DoctorArguments {
  std::string root, folder, machine, device = "auto";
  bool json = false, measure = false;
};

doctor::NodeView view_of(const DoctorArguments& arguments) {
  if (arguments.root.empty()) return own_node(true);
  try {
    return doctor::node_below(arguments.root);
  } catch (const UserError& error) {
    throw UserError(is_reporting_process() ? error.what() : "", error.code);
  }
}

doctor::Speed speed_of(const measure::RankSpeed& speed) {
  return {.product_flops = speed.product_flops, .copied_bytes = speed.copied_bytes, .links = speed.links};
}

MeasuredSpeed measured_by(comm::World& world, const at::Device& device, const DoctorArguments& arguments) {
  const measure::RankSpeed measured = measure::measure_rank_speed(world, device);
  if (arguments.machine.empty()) return {.measured = speed_of(measured)};
  const machine::Machine machine = machine::for_job(machine::load(arguments.machine), world.size());
  return {.measured = speed_of(measured),
          .described = speed_of(measure::described_speed(machine, device, world.rank(), measured))};
}

// All ranks at the same time.
MeasuredSpeed measured_speed(const DoctorArguments& arguments, const LaunchedRanks& ranks) {
  if (!arguments.measure) return {};
  if (ranks.world) {
    comm::World& world = *ranks.world;
    train::prepare_machine(world.cores_per_rank());
    return train::abort_on_error(
        world, [&] { return measured_by(world, train::choose_device(arguments.device, world), arguments); });
  }
  train::prepare_machine(train::choose_threads(0));
  MeasuredSpeed speed;
  comm::run_threads(1, train::world_options(ranks.config), [&](comm::World& world) {
    speed = measured_by(world, train::choose_device(arguments.device, world.rank()), arguments);
  });
  return speed;
}

void examine(const DoctorArguments& arguments) {
  // A name that does not exist is refused before anything is measured.
  if (!arguments.machine.empty()) machine::load(arguments.machine);
  const doctor::NodeView view = view_of(arguments);
  LaunchedRanks ranks = connect(1);
  const bool is_reporting_rank = ranks.is_reporting_rank();
  const doctor::Diagnosis diagnosis =
      diagnose_node(view, ranks, {.run_folder = arguments.folder}, measured_speed(arguments, ranks));
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
