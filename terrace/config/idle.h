// Keys that have no effect because of other keys or because there are too few ranks. The loader refuses keys by this
// table, the start of a run warns by it, and dump() omits keys by it.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"

namespace terrace::config {

struct IdleRule {
  std::string key;                  // full name
  std::vector<std::string> causes;  // full names of the keys that can make it idle
  std::string off = "";             // TOML of the value that switches the key off, which is always accepted
  // The reason among the causes, as the end of the sentence "KEY = VALUE has no effect ..."; "" if the key has an
  // effect.
  std::string (*beside)(const Config&) = nullptr;
  // The reason in the number of ranks, as the end of such a sentence; "" if the key has an effect.
  std::string (*on)(const Config&, const RankFacts&) = nullptr;
};

// The rules for the keys that every configuration has.
const std::vector<IdleRule>& core_idle_rules();

// Why the other keys of the configuration leave this key without effect, as the end of "KEY = VALUE has no effect ...";
// "" if it has an effect.
std::string idle_beside(const Config& config, const std::string& full_name);

}  // namespace terrace::config
