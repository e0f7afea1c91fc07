// terrace calibrate: measures this machine and writes its description, which plan, simulate and train read.
#include "terrace/measure/calibrate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>

#include "cli/commands.h"
#include "cli/ranges.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/machine_measurement.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"

namespace terrace::cli {
namespace {

struct CalibrateArguments {
  std::string output, name = "this machine", device = "auto";
  int64_t ranks = 1, threads = 0;
  bool quick = false, json = false;
};

machine::Machine measured(const CalibrateArguments& arguments, const LaunchedRanks& launched) {
  const MachineMeasurement measurement{
      .name = arguments.name, .quick = arguments.quick, .types = {at::kFloat, at::kBFloat16, at::kHalf}};
  machine::Machine machine;
  on_measuring_ranks({.ranks = arguments.ranks, .threads = arguments.threads, .device = arguments.device}, launched,
                     [&](comm::World& world, const at::Device& device) {
                       machine::Machine own = measure_machine(world, device, measurement);
                       if (world.rank() == 0) machine = std::move(own);
                     });
  return machine;
}

void write(const CalibrateArguments& arguments, const machine::Machine& machine) {
  const std::string text = "# " + machine.about + ".\n" + machine::dump(machine);
  if (!arguments.output.empty()) write_text_atomically(arguments.output, text);
  if (arguments.json) {
    fmt::print("{}\n", Json{{"output", arguments.output}, {"machine", text}}.dump());
  } else {
    fmt::print("{}\n", arguments.output.empty() ? text : arguments.output);
  }
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  auto arguments = std::make_shared<CalibrateArguments>();
  CLI::App* command = app.add_subcommand("calibrate", "Measure this machine and write its description for predictions");
  command->add_option("--output", arguments->output, "File for the description (if not given, standard output)");
  command->add_option("--name", arguments->name, "The machine's name in the description");
  command
      ->add_option("--ranks", arguments->ranks,
                   "Number of ranks that measure at the same time, as threads of this process, as many as the runs to "
                   "predict have; under mpirun or srun each process is a rank")
      ->check(positive());
  command
      ->add_option("--threads", arguments->threads, "Threads of each rank (if not given, the cores divided by ranks)")
      ->check(positive());
  command->add_option("--device", arguments->device, "\"cpu\", \"cuda\", or \"auto\": a GPU if there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command->add_flag("--quick", arguments->quick, "Fewer shapes and rounds: half a minute instead of three");
  command->add_flag("--json", arguments->json, "Print one JSON object with the description");
  command->footer("Nothing else should compute on the machine meanwhile.");
  command->callback([arguments] {
    LaunchedRanks launched = connect(arguments->ranks);
    const bool is_reporting_rank = launched.is_reporting_rank();
    const machine::Machine machine = measured(*arguments, launched);
    launched.world.reset();
    if (is_reporting_rank) write(*arguments, machine);
  });
}

}  // namespace terrace::cli
