// Adds the options and reads the files that they name.
#include "cli/planned_target.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/ranges.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/config/outer_updates.h"
#include "terrace/machine/over_groups.h"
#include "terrace/models/planned_families.h"
#include "terrace/translate/translation_report.h"

namespace terrace::cli {

void PlannedTarget::add_to(CLI::App& command) {
  command.add_option("config", config, "Configuration file; [model], [train] and [layout] are enough")->required();
  command.add_option("--set", overrides, "Replace one key: section.key=value; may be given again")
      ->allow_extra_args(false);
  command.add_option("--machine", machine,
                     "A description of the machine: a built-in name, or a TOML file (docs/machines.md)");
  command.add_option("--software", software, "The program that trains: a built-in name, or a TOML file");
  command
      .add_option(
          "--products", products,
          "fp8: products of linear layers in transformer blocks take 8-bit floats, on machines that state their "
          "rates ([device.fp8])")
      ->check(CLI::IsMember({"fp8"}));
  command.add_option("--devices", devices, "Devices, one for each rank (if not given, 1)")->check(positive());
  command
      .add_option(
          "--groups", groups,
          "Groups of the machine's dragonfly network among which the nodes of the job are divided evenly (if not "
          "given, as few as hold them)")
      ->check(positive());
}

config::Config PlannedTarget::load_config(config::IdleKeys idle) const {
  config::Config loaded;
  try {
    loaded = text ? config::parse_for_plan(*text, config, models::planned_families(), all_overrides(), idle)
                  : config::load_for_plan(config, models::planned_families(), all_overrides(), idle);
  } catch (const UserError& error) {
    if (!translation) throw;
    throw UserError::of("{}\nThe configuration is the translation of a launch:\n{}", error.what(),
                        translate::text_of(*translation));
  }
  if (!loaded.idle.empty()) log_warning("keys without effect in this run:\n  {}", fmt::join(loaded.idle, "\n  "));
  if (const std::string advice = config::few_outer_updates(loaded); !advice.empty()) log_warning("{}", advice);
  return loaded;
}

std::vector<std::string> PlannedTarget::all_overrides() const {
  std::vector<std::string> all = translated;
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

std::string PlannedTarget::translation_text() const {
  return translation ? translate::text_of(*translation) + "\n" : "";
}

std::string PlannedTarget::missing_for_training() const {
  try {
    config::parse(text ? *text : read_text(config), config, models::planned_families(), all_overrides(),
                  config::IdleKeys::accept);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

plan::Target PlannedTarget::load_target() const {
  plan::Target target{.machine = machine::load(machine), .software = machine::load_software(software)};
  if (products == "fp8") target.block_products = plan::BlockProducts::fp8;
  if (devices > 0) {
    target.devices = devices;
  } else if (target.machine.devices() > 1) {
    log_info("this is for 1 of the {} devices of {}, since --devices is not given",
             format_count(target.machine.devices()), target.machine.name);
  }
  if (groups > 0) target.machine = machine::over_groups(target.machine, target.devices, groups);
  return target;
}

}  // namespace terrace::cli
