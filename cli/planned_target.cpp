// Adds the options and reads the files that they name.
#include "cli/planned_target.h"

#include <CLI/CLI.hpp>

#include "cli/ranges.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/models/cost/family.h"

namespace terrace::cli {

void PlannedTarget::add_to(CLI::App& command) {
  command.add_option("config", config, "Configuration file; [model], [train] and [layout] are enough")->required();
  command.add_option("--set", overrides, "Replace one key: section.key=value; may be given again")
      ->allow_extra_args(false);
  command.add_option("--machine", machine,
                     "A description of the machine: a built-in name, or a TOML file (docs/machines.md)");
  command.add_option("--software", software, "The program that trains: a built-in name, or a TOML file");
  command.add_option("--devices", devices, "Devices, one for each rank")->check(positive());
}

config::Config PlannedTarget::load_config(config::IdleKeys idle) const {
  return config::load_for_plan(config, models::planned_families(), overrides, idle);
}

plan::Target PlannedTarget::load_target() const {
  return {.machine = machine::load(machine), .software = machine::load_software(software), .devices = devices};
}

}  // namespace terrace::cli
