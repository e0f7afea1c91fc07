// Reads the resolved configurations of runs.
#include "terrace/observe/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <set>

#include "terrace/base/error.h"
#include "terrace/config/domain.h"

namespace terrace::observe {
namespace {

namespace fs = std::filesystem;
using Settings = std::map<std::string, std::string>;

constexpr size_t most_shown = 2;

void add_keys(const toml::table& table, const std::string& before, Settings& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = before.empty() ? std::string(key.str()) : fmt::format("{}.{}", before, key.str());
    const toml::array* list = node.as_array();
    if (const toml::table* inner = node.as_table()) {
      add_keys(*inner, name, settings);
    } else if (list != nullptr && list->is_array_of_tables()) {
      for (size_t i = 0; i < list->size(); ++i)
        add_keys(*list->get(i)->as_table(), fmt::format("{}.{}", name, i), settings);
    } else {
      settings[name] = config::shown(node);
    }
  }
}

bool changes_training(const std::string& key) {
  return !key.starts_with("checkpoint.") && !key.starts_with("observe.");
}

}  // namespace

std::string run_name(const fs::path& folder) { return (folder / "").parent_path().string(); }

Settings settings_of(const fs::path& folder) {
  Settings settings;
  try {
    add_keys(toml::parse_file((folder / "resolved.toml").string()), "", settings);
  } catch (const toml::parse_error&) {
    return {};
  }
  return settings;
}

std::vector<std::string> differing_keys(const std::vector<Settings>& runs) {
  std::map<std::string, std::set<std::string>> values;
  std::map<std::string, size_t> counts;
  size_t known = 0;
  for (const Settings& run : runs) {
    if (run.empty()) continue;
    ++known;
    for (const auto& [key, value] : run) {
      values[key].insert(value);
      ++counts[key];
    }
  }
  std::vector<std::string> keys;
  for (const auto& [key, of_key] : values) {
    if (changes_training(key) && (of_key.size() > 1 || counts[key] < known)) keys.push_back(key);
  }
  return keys;
}

std::vector<std::string> names_by_settings(const std::vector<fs::path>& folders, const std::vector<std::string>& keys) {
  std::vector<Settings> runs;
  for (const fs::path& folder : folders) runs.push_back(settings_of(folder));
  const std::vector<std::string> differing = differing_keys(runs);
  for (const std::string& key : keys) {
    if (std::ranges::any_of(runs, [&](const Settings& run) { return run.contains(key); })) continue;
    throw UserError::of("--by: no resolved.toml of these runs has {}; {}", key,
                        differing.empty() ? "no key differs among them"
                                          : fmt::format("these keys differ: {}", fmt::join(differing, ", ")));
  }
  std::vector<std::string> shown = keys;
  if (keys.empty() && differing.size() <= most_shown) shown = differing;
  std::vector<std::string> names;
  for (size_t i = 0; i < folders.size(); ++i) {
    std::string name = run_name(folders[i]);
    std::vector<std::string> settings;
    for (const std::string& key : shown) {
      const auto found = runs[i].find(key);
      settings.push_back(found == runs[i].end() ? key + " not given" : fmt::format("{} = {}", key, found->second));
    }
    if (!settings.empty()) name += fmt::format(" ({})", fmt::join(settings, ", "));
    names.push_back(name);
  }
  return names;
}

}  // namespace terrace::observe
