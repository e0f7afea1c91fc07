// The phases of a run, [[data.phases]]: from a step on, other values of a few keys, with weights, optimizer states and
// the step kept. Phases are counted from 1; what comes before the first of them is phase 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/key.h"

namespace terrace::config {

inline constexpr const char* phases_key = "data.phases";

// Whether a phase may change the key: train.global_batch, and those keys of [data] that the family names.
bool is_phase_key(const Family& family, const Key& key);
// The keys that a phase may change, in the order of the page.
std::vector<Key> phase_keys_of(const Family& family);

// The configuration with the values of a phase, and without phases of its own. In a phase other than 0 there is no
// batch-size ramp-up: one that is under way ends where a phase changes global_batch.
Config in_phase(const Config& config, size_t phase);
// The phase that a step belongs to.
size_t phase_at(const Config& config, int64_t step);

// "data.phases[1] (from_step = 500)".
std::string phase_name(const Config& config, size_t phase);
// The values that a phase changes, as "global_batch = 16, weights = [1.0, 2.0]"; "nothing" if its values are those
// before it.
std::string phase_changes_text(const Config& config, size_t phase);

// All phases as TOML, a table each; "" if there are none.
std::string phase_tables(const Config& config);
// All phases as one value in TOML, such as "[{from_step = 500, global_batch = 16}]".
std::string phases_value(const Config& config);

// A line for everything about phases that differs between the checkpoint of a run after `steps_done` steps and now,
// although the phase has begun.
std::string phase_changes(const Config& saved, const Config& now, int64_t steps_done);
// Says how to change a key of a phase all the same, to be put behind "Set them back".
std::string phases_remedy(int64_t steps_done);

}  // namespace terrace::config
