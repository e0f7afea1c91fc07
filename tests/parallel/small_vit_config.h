// Configurations of small vision transformers by name, which two, three and four tensor ranks can divide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/models/families.h"

namespace terrace::parallel {

constexpr int64_t small_places = 24;

inline bool is_vit(const std::string& name) { return name.starts_with("cut_vit"); }

// cut_vit has 24 places and three channels; "_normed" adds norms of queries and keys, "_dropped" dropout and stochastic
// depth, and "_deep" has as many layers as two stages of several segments need.
inline config::Config vit_config(const std::string& name) {
  const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
  std::vector<std::string> keys;
  if (has("_normed")) keys.insert(keys.end(), {"model.qk_norm=true", "model.time_inputs=true"});
  if (has("_dropped")) keys.insert(keys.end(), {"model.dropout=0.1", "model.drop_path=0.1"});
  if (has("_deep")) keys.emplace_back("model.layers=6");
  return config::parse(
      "[model]\nfamily = \"vit\"\nvariables = [\"t\", \"u\"]\ngrid = [8, 12]\npatch = 2\nlayers = 2\nwidth = 192\n"
      "heads = 12\ndropout = 0.0\ndrop_path = 0.0\n[data]\nfields = \"unread\"\nleads = [\"6h\"]\n"
      "constants = [\"orography\"]\n[train]\nglobal_batch = 24\nsteps = 1\nthreads = 1\ndevice = \"cpu\"\n"
      "[optimizer]\nlearning_rate = 1e-2\n[checkpoint]\nfolder = \"unused\"\n",
      "vit.toml", models::families(), keys);
}

}  // namespace terrace::parallel
