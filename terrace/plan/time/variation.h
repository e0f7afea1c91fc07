// Configurations that differ from a given one in a key or two of [train] and [layout], and that train the same model on
// the same batches.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::plan {

struct Variation {
  std::vector<std::string> settings;  // "layout.tensor=4", as for --set
  config::Config config;
};

// The variations of a configuration that hold every rule between keys; they may not fit a number of ranks.
std::vector<Variation> variations(const config::Config& config);

// The keys of [train] and [layout] whose values differ, as settings of `changed`.
std::vector<std::string> differences(const config::Config& config, const config::Config& changed);

// Forgets what the layout says of its stages one by one, for another number of stages: layers are divided by cost, and
// as few are recomputed as the memory allows where each stage had a number of its own.
void forget_stage_numbers(config::LayoutConfig& layout);

// Whether the configuration holds the rules between its keys.
bool holds_rules(const config::Config& config);

}  // namespace terrace::plan
