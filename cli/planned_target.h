// The options of subcommands that predict a run on a machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/plan/prediction.h"
#include "terrace/translate/translation.h"

namespace CLI {
class App;
}

namespace terrace::cli {

struct PlannedTarget {
  std::string config, machine = "laptop", software = "terrace";
  std::vector<std::string> overrides;
  int64_t devices = 0;        // 0: not given
  std::string products = {};  // "fp8"; "": as the configuration has them
  int64_t groups = 0;         // of the network in which the nodes lie; 0: as few as hold them

  // With a launch of another trainer: what was understood, the options that give it, and its configuration, which
  // stands in place of the file or of some of the file's keys.
  std::optional<translate::Translation> translation = {};
  std::vector<std::string> launch = {};
  std::optional<std::string> text = {};
  std::vector<std::string> translated = {};  // overrides

  // Adds the configuration file and the options of the members, which must outlive the parsing.
  void add_to(CLI::App& command);

  // Says which keys have no effect.
  config::Config load_config(config::IdleKeys idle = config::IdleKeys::warn) const;
  // The report of the translated launch, with an empty line behind it; "" without a launch.
  std::string translation_text() const;
  // The keys that training needs and the configuration lacks, as the error of reading it; "" if there are none.
  std::string missing_for_training() const;
  // Has one device if --devices is not given, and then says how many the machine has.
  plan::Target load_target() const;

 private:
  std::vector<std::string> all_overrides() const;
};

}  // namespace terrace::cli
