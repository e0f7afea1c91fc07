// The keys data.stage and data.stage_bytes.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/domain.h"
#include "terrace/config/idle.h"
#include "terrace/config/section_keys.h"
#include "terrace/data/staging/stage_config.h"

namespace terrace::data {

// A number of bytes, or a string such as "400 GB".
struct Bytes {
  int64_t least = 0;  // the least number beside 0

  std::string description() const;
  std::string read(const toml::node& node, int64_t& value) const;
};

// The least bytes of a staging buffer.
inline constexpr int64_t least_stage_bytes = int64_t{1} << 16;

// Adds the keys to those of a struct whose member `stage` is a StageConfig. `find` gives the struct of a Config.
template <typename Find>
void add_stage_keys(const Find& find, std::vector<config::Key>& list) {
  const config::SectionKeys data{"data", [find](auto& config) -> decltype(auto) { return (find(config).stage); }, list};
  data.feature("stage", &StageConfig::folder, config::Text{.may_be_empty = true}, config::OnResume::may_change,
               "A folder on a disk of each node, such as \"/mnt/bb/$USER\", into which each node copies what its ranks "
               "will read, ahead of its use. Environment variables are replaced. Empty: none.");
  data.feature("stage_bytes", &StageConfig::bytes, Bytes{.least = least_stage_bytes}, config::OnResume::may_change,
               "The most that a node keeps in `stage`. 0: all of the data, or 90% of what is free there.");
}

// Returns the rule of data.stage_bytes. `without_stage` gives a reason where data.stage is empty.
config::IdleRule stage_bytes_idle_rule(std::string (*without_stage)(const config::Config&));
inline constexpr const char* stage_bytes_without_stage = "without data.stage; name a folder there, or remove it";

}  // namespace terrace::data
