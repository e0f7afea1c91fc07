// Joins what a family adds to the configuration with what every configuration has.
#include "terrace/config/family.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace terrace::config {

std::vector<Key> keys_of(const Family* family) {
  const std::vector<Key> core = core_keys(family);
  std::vector<Key> list;
  for (const std::string& section : section_names()) {
    const auto add = [&](const std::vector<Key>& keys) {
      std::ranges::copy_if(keys, std::back_inserter(list), [&](const Key& key) { return key.section == section; });
    };
    add(core);
    if (family != nullptr) add(family->settings.keys);
  }
  return list;
}

std::vector<IdleRule> idle_rules_of(const Family* family) {
  std::vector<IdleRule> list = core_idle_rules();
  if (family != nullptr) {
    list.insert(list.end(), family->settings.idle_rules.begin(), family->settings.idle_rules.end());
  }
  return list;
}

std::string commands_of(const Family& family) {
  std::vector<std::string> commands = {"evaluate"};
  if (family.text != nullptr) commands.emplace_back("generate");
  if (family.exchange != nullptr) commands.emplace_back("export");
  if (family.graphs != nullptr) commands.emplace_back("predict");
  if (family.forecast != nullptr) commands.insert(commands.end(), {"forecast", "score"});
  return fmt::format("terrace {}", fmt::join(commands, " or "));
}

const Family* find_family(const Families& families, std::string_view name) {
  const auto found = std::ranges::find(families, name, &Family::name);
  return found == families.end() ? nullptr : *found;
}

Config config_of(const Family& family) {
  Config config;
  config.family = &family;
  config.model = family.settings.model;
  config.data = family.settings.data;
  return config;
}

}  // namespace terrace::config
