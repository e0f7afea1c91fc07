// Checks a start on the first rank, for all ranks.
#include "terrace/run/check_run.h"

#include <string>
#include <utility>

#include "terrace/run/start_checks.h"
#include "terrace/run/start_facts.h"
#include "terrace/train/agreement.h"

namespace terrace::run {

RunCheck check_run(const config::Config& config, const RunOptions& options) {
  if (options.world == nullptr) {
    StartChecks checks(config, options, options.ranks, options.ranks);
    checks.look();
    return std::move(checks.found);
  }
  comm::World& world = *options.world;
  return train::abort_on_error(world, [&] {
    const auto all = world.connect(mesh::all_ranks("control", world.size()));
    check_same_start(*all, world.ranks_per_node(), config, options);
    StartChecks checks(config, options, world.size(), world.ranks_per_node());
    const std::string checkpoint = train::broadcast_result(*all, [&]() -> std::string {
      checks.look();
      return checks.found.checkpoint.string();
    });
    if (checkpoint.empty()) {
      train::check_same_files(*all, world.ranks_per_node(), [&] { return initial_weights_facts(config); });
    }
    return std::move(checks.found);
  });
}

}  // namespace terrace::run
