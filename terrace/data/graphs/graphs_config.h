// [data] of a model of graphs: its struct, its keys and their rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/files/attached_file.h"
#include "terrace/config/config.h"
#include "terrace/config/idle.h"
#include "terrace/config/key.h"
#include "terrace/config/rules.h"
#include "terrace/data/staging/stage_config.h"

namespace terrace::data {

struct GraphsConfig {
  std::vector<std::string> train = {};  // prefixes P of prepared datasets, see graphs_description.h
  std::vector<double> weights = {};     // one for each; empty: in proportion to their structures
  // A file of label statistics that a checkpoint keeps; "": `kept_statistics`, or the statistics of the data; "data":
  // the statistics of the data (kept_statistics.h).
  std::string statistics = {};
  // The statistics of the checkpoint with whose weights the run began; "": none. This is not a key.
  std::string kept_statistics = {};
  std::string held_out_split = "validation";  // the part on which a model is evaluated
  // The sizes of a structure, for planning; 0: those of the training parts.
  double average_atoms = 0, average_edges = 0;
  int64_t most_atoms = 0, most_edges = 0;
  // Datasets that take the place of `train`, all of them held out (hold_out_graphs()). This is not a key.
  std::vector<std::string> held_out = {};
  StageConfig stage = {};
  bool operator==(const GraphsConfig&) const = default;
};

// [data] of a configuration whose family reads graphs; aborts where it does not.
inline GraphsConfig& graphs_of(config::Config& config) { return config.data.get<GraphsConfig>(); }
inline const GraphsConfig& graphs_of(const config::Config& config) { return config.data.get<GraphsConfig>(); }

std::vector<config::Key> graphs_keys();
std::vector<config::Rule> graphs_rules();
std::vector<config::IdleRule> graphs_idle_rules();

// Makes datasets the only data, to be evaluated on their test part, on their validation part where they have no other,
// and else on all their structures, with the statistics that a checkpoint keeps. A dataset has the branch of that
// dataset of data.train whose name without its folder is the same, or the only branch. Throws UserError for a dataset
// without a branch.
void hold_out_graphs(GraphsConfig& config, const std::vector<std::string>& datasets, const AttachedPaths& attached);

// Returns the number in data.train of a dataset that hold_out_graphs() holds out.
int64_t branch_of(const GraphsConfig& config, const std::string& dataset);

// Takes the copy of the statistics that a checkpoint keeps.
void take_attached_graph_statistics(GraphsConfig& config, const AttachedPaths& attached);
// Takes the copy of the statistics for a run that begins with the checkpoint's weights, unless data.statistics says
// otherwise: labels, datasets and elements that the checkpoint does not know have the statistics of the data. Returns a
// sentence about what was taken for the log; "" where nothing was.
std::string keep_graph_statistics(GraphsConfig& config, const AttachedPaths& attached);

}  // namespace terrace::data
