// Keys that have no effect beside other keys or on too few ranks: one table for what the loader refuses, what a start
// warns of, and what dump() leaves out.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

struct IdleRule {
  std::string key;                                 // full name
  std::vector<std::string> causes;                 // full names of the keys that can make it idle
  std::string off = "";                            // TOML of the value that asks for nothing and so is always right
  std::string (*beside)(const Config&) = nullptr;  // of the causes: the end of "KEY = VALUE has no effect ...",
                                                   // or "" where it has one
  std::string (*on)(const Config&, const RankFacts&) = nullptr;  // likewise of the ranks
};

// Those of keys that every configuration has.
const std::vector<IdleRule>& core_idle_rules();

// The end of "KEY = VALUE has no effect ..." beside the other keys of the configuration; "" where it has one.
std::string idle_beside(const Config& config, const std::string& full_name);

}  // namespace terrace::config
