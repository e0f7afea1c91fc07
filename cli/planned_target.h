// The options of subcommands that predict a run on a machine.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/prediction.h"

namespace CLI {
class App;
}

namespace terrace::cli {

struct PlannedTarget {
  std::string config, machine = "laptop", software = "terrace";
  std::vector<std::string> overrides;
  int64_t devices = 0;  // 0: not given

  // Adds the configuration file and the options of the members, which must outlive the parsing. A command that can do
  // without a configuration asks for it itself.
  void add_to(CLI::App& command, bool needs_config = true);

  // Says which keys have no effect.
  config::Config load_config(config::IdleKeys idle = config::IdleKeys::warn) const;
  // Has one device if --devices is not given, and then says how many the machine has.
  plan::Target load_target() const;
};

}  // namespace terrace::cli
