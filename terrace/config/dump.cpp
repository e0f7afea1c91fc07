// Writes a finished configuration as TOML, and compares two configurations on resume.
#include <utility>

#include "terrace/base/error.h"
#include "terrace/config/config.h"
#include "terrace/config/family.h"
#include "terrace/config/key_values.h"
#include "terrace/config/phases.h"

namespace terrace::config {

namespace {

// Writes each table of a list under its heading.
std::string tables_of_key(const Key& key, const Config& config) {
  std::string text;
  for (const std::vector<std::string>& lines : key.table_lines(config)) {
    text += fmt::format("\n[[{}]]\n{}\n", key.full_name(), fmt::join(lines, "\n"));
  }
  return text;
}

}  // namespace

std::string dump(const Config& config) {
  std::string text, section, tables;
  const Config defaults = config_of(*config.family);
  for (const Key& key : keys_of(config.family)) {
    if (key.section != section) {
      text += std::exchange(tables, "");
      if (section == "data") text += phase_tables(config);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", key.section);
      section = key.section;
    }
    if (!key.dumped_at_default && key.write(config) == key.write(defaults)) continue;
    if (key.table_lines != nullptr) {
      tables += tables_of_key(key, config);
      continue;
    }
    if (idle_beside(config, key.full_name()).empty()) text += fmt::format("{} = {}\n", key.name, key.write(config));
  }
  return text + tables;
}

std::vector<std::pair<std::string, std::string>> key_values(const Config& config) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Key& key : keys_of(config.family)) values.emplace_back(key.full_name(), key.write(config));
  if (!config.phases.empty()) values.emplace_back(phases_key, phases_value(config));
  return values;
}

void check_resume(const Config& saved, const Config& now, int64_t steps_done) {
  if (saved.family != now.family) {
    throw UserError::of(
        "the run's model is of the family \"{}\", and the configuration's of \"{}\"; set model.family back",
        saved.family->name, now.family->name);
  }
  std::string changes, remedy;
  for (const Key& key : keys_of(now.family)) {
    if (key.on_resume == OnResume::may_change || key.identity(saved) == key.identity(now)) continue;
    changes +=
        fmt::format("\n  {} = {} in the checkpoint, but {} now", key.full_name(), key.write(saved), key.write(now));
    if (is_phase_key(*now.family, key)) remedy = phases_remedy(steps_done);
  }
  const std::string of_phases = phase_changes(saved, now, steps_done);
  if (!of_phases.empty()) remedy = phases_remedy(steps_done);
  changes += of_phases;
  if (changes.empty()) return;
  throw UserError::of(
      "these keys must not change when a run is resumed:{}\nSet them back{}; or start a new run in another "
      "checkpoint.folder with train.initial_weights, which takes the weights only.",
      changes, remedy);
}

}  // namespace terrace::config
