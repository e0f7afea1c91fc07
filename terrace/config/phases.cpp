// Applies, writes and compares the phases of a run.
#include "terrace/config/phases.h"

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::config {
namespace {

constexpr std::string_view batch_key = "train.global_batch";

// "KEY = VALUE" of each key in the phase.
std::vector<std::string> settings_of(const Config& config, size_t phase) {
  const Config in = in_phase(config, phase);
  std::vector<std::string> settings = {fmt::format("from_step = {}", config.phases.at(phase - 1).from_step)};
  for (const Key& key : phase_keys_of(*config.family)) {
    settings.push_back(fmt::format("{} = {}", key.name, key.write(in)));
  }
  return settings;
}

// The number of the phase that begins with a step; 0 if there is none.
size_t phase_from(const Config& config, int64_t from_step) {
  const size_t phase = phase_at(config, from_step);
  return phase > 0 && config.phases[phase - 1].from_step == from_step ? phase : 0;
}

// A line for each key that a phase gives another value in one configuration than in the other. Keys that the phase does
// not name are left to the phase before.
std::string key_changes(const Config& saved, size_t saved_phase, const Config& now, size_t phase) {
  const Config before = in_phase(saved, saved_phase), after = in_phase(now, phase);
  const Config earlier_before = in_phase(saved, saved_phase - 1), earlier_after = in_phase(now, phase - 1);
  std::string changes;
  for (const Key& key : phase_keys_of(*now.family)) {
    if (key.identity(before) == key.identity(after)) continue;
    const bool taken_over =
        key.write(before) == key.write(earlier_before) && key.write(after) == key.write(earlier_after);
    if (taken_over) continue;
    changes += fmt::format("\n  {}: {} = {} in the checkpoint, but {} now", phase_name(now, phase), key.name,
                           key.write(before), key.write(after));
  }
  return changes;
}

}  // namespace

bool is_phase_key(const Family& family, const Key& key) {
  if (key.full_name() == batch_key) return true;
  return key.section == "data" &&
         std::ranges::find(family.settings.phase_keys, key.name) != family.settings.phase_keys.end();
}

std::vector<Key> phase_keys_of(const Family& family) {
  std::vector<Key> keys = keys_of(&family);
  std::erase_if(keys, [&](const Key& key) { return !is_phase_key(family, key); });
  return keys;
}

Config in_phase(const Config& config, size_t phase) {
  Config in = config;
  in.phases.clear();
  if (phase == 0) return in;
  const Phase& values = config.phases.at(phase - 1);
  in.train.global_batch = values.global_batch;
  in.train.ramp_start = in.train.ramp_increment = in.train.ramp_samples = 0;
  in.data = values.data;
  return in;
}

size_t phase_at(const Config& config, int64_t step) {
  const auto after = std::ranges::upper_bound(config.phases, step, {}, &Phase::from_step);
  return static_cast<size_t>(after - config.phases.begin());
}

std::string phase_name(const Config& config, size_t phase) {
  return fmt::format("{}[{}] (from_step = {})", phases_key, phase, config.phases.at(phase - 1).from_step);
}

std::string phase_changes_text(const Config& config, size_t phase) {
  const Config before = in_phase(config, phase - 1), now = in_phase(config, phase);
  std::string text;
  for (const Key& key : phase_keys_of(*config.family)) {
    if (key.write(before) == key.write(now)) continue;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key.name, key.write(now));
  }
  return text.empty() ? "nothing" : text;
}

std::string phase_tables(const Config& config) {
  std::string text;
  for (size_t phase = 1; phase <= config.phases.size(); ++phase) {
    text += fmt::format("\n[[{}]]\n", phases_key);
    for (const std::string& setting : settings_of(config, phase)) text += setting + "\n";
  }
  return text;
}

std::string phases_value(const Config& config) {
  std::string text;
  for (size_t phase = 1; phase <= config.phases.size(); ++phase) {
    std::string table;
    for (const std::string& setting : settings_of(config, phase)) table += (table.empty() ? "" : ", ") + setting;
    text += fmt::format("{}{{{}}}", text.empty() ? "" : ", ", table);
  }
  return "[" + text + "]";
}

std::string phase_changes(const Config& saved, const Config& now, int64_t steps_done) {
  std::string changes;
  for (size_t phase = 1; phase <= phase_at(saved, steps_done); ++phase) {
    const size_t found = phase_from(now, saved.phases[phase - 1].from_step);
    if (found == 0) {
      changes += fmt::format("\n  {} is in the checkpoint with {}, but not there now", phase_name(saved, phase),
                             phase_changes_text(saved, phase));
    } else {
      changes += key_changes(saved, phase, now, found);
    }
  }
  for (size_t phase = 1; phase <= phase_at(now, steps_done); ++phase) {
    if (phase_from(saved, now.phases[phase - 1].from_step) > 0) continue;
    changes += fmt::format("\n  {} is not in the checkpoint, which has done {} steps, but is there now",
                           phase_name(now, phase), steps_done);
  }
  return changes;
}

std::string phases_remedy(int64_t steps_done) {
  return fmt::format(
      "; to train on other data or with another global_batch from here on, add [[data.phases]] with a from_step of {} "
      "or more",
      steps_done + 1);
}

}  // namespace terrace::config
