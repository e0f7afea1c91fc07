// Finds the fastest layout for the devices of a launch, as terrace plan --best does.
#include "cli/launched_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/layout_limits.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/load_for_plan.h"
#include "terrace/machine/software.h"
#include "terrace/models/planned_families.h"
#include "terrace/plan/layouts/best.h"

namespace terrace::cli {

std::vector<std::string> fastest_layout(const std::string& config_file, const std::vector<std::string>& overrides,
                                        const std::vector<std::string>& limits, const machine::Machine& machine,
                                        int64_t devices) {
  // The layouts decide which keys have an effect.
  const config::Config config =
      config::load_for_plan(config_file, models::planned_families(), overrides, config::IdleKeys::keep);
  const plan::Target target{.machine = machine, .software = machine::load_software("terrace"), .devices = devices};
  constexpr uint64_t parts = 1000;
  Progress progress("simulating layouts", parts);
  const plan::BestOptions options{
      .limits = layout_limits(overrides, limits, config, devices),
      .moves_constants = true,
      .progress = [&](double share) { progress.update(static_cast<uint64_t>(share * parts)); }};
  const plan::BestLayouts best = plan::best_layouts(config, target, options);
  progress.clear();
  const plan::Change& fastest = best.layouts.front();
  const std::string of = counted(static_cast<uint64_t>(best.legal), "layout");
  if (fastest.settings.empty()) {
    log_info("{} is the fastest of {} as it is", config_file, of);
  } else {
    log_info("the fastest of {}: {}", of, fmt::join(fastest.settings, ", "));
  }
  return fastest.settings;
}

}  // namespace terrace::cli
