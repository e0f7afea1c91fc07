// Defines the keys of [data] for graphs, and their rules.
#include "terrace/data/graphs/graphs_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>

#include "terrace/base/error.h"
#include "terrace/config/section_keys.h"
#include "terrace/data/kept_statistics.h"
#include "terrace/data/staging/stage_keys.h"

namespace terrace::data {
namespace {

using config::OnResume;

constexpr int64_t most_of_structure = 1'000'000'000;

std::string weights_match_datasets(const config::Config& c) {
  const size_t weights = graphs_of(c).weights.size(), datasets = graphs_of(c).train.size();
  if (weights == 0 || weights == datasets) return "";
  return fmt::format("data.weights has {} numbers for {} datasets in data.train; give {}, or []", weights, datasets,
                     datasets);
}

// The last part of a prefix names the branch and the statistics of its dataset, wherever its folder is.
std::string names_are_distinct(const config::Config& c) {
  std::set<std::string> names;
  for (const std::string& prefix : graphs_of(c).train) {
    if (names.insert(config::without_folder(prefix)).second) continue;
    return fmt::format(
        "data.train has two datasets of the name {}, which tells datasets apart; prepare or rename one of them",
        config::without_folder(prefix));
  }
  return "";
}

std::string averages_are_below_most(const config::Config& c) {
  const GraphsConfig& d = graphs_of(c);
  const auto compare = [](const char* what, double average, int64_t most) -> std::string {
    if ((average > 0) != (most > 0)) {
      return fmt::format("data.average_{0} = {1} and data.most_{0} = {2} are given together or not at all", what,
                         average, most);
    }
    if (average <= static_cast<double>(most)) return "";
    return fmt::format("data.average_{0} = {1} is more than data.most_{0} = {2}", what, average, most);
  };
  const std::string problem = compare("atoms", d.average_atoms, d.most_atoms);
  return problem.empty() ? compare("edges", d.average_edges, d.most_edges) : problem;
}

std::string weights_of_one_dataset(const config::Config& c) {
  return graphs_of(c).train.size() == 1 && graphs_of(c).weights.size() == 1
             ? "with one dataset in data.train; remove it"
             : "";
}

std::string graphs_without_stage(const config::Config& c) {
  return graphs_of(c).stage.stages() ? "" : stage_bytes_without_stage;
}

}  // namespace

std::vector<config::Key> graphs_keys() {
  using D = GraphsConfig;
  std::vector<config::Key> list;
  const config::SectionKeys data{"data", [](auto& config) -> decltype(auto) { return (graphs_of(config)); }, list};
  data.required("train", &D::train, config::Prefixes{}, OnResume::names_fixed, "[\"data/molecules\"]",
                "Prefixes of datasets that `terrace data prepare --kind graphs` made.");
  data.optional("weights", &D::weights, config::PositiveReals{}, OnResume::fixed,
                "Relative shares of the datasets in `train`, one number for each. Empty: in proportion to their "
                "structures.");
  data.optional("statistics", &D::statistics, config::Text{.may_be_empty = true}, OnResume::names_fixed,
                "File with the offsets and scales of labels, as checkpoints keep it (`statistics.json`). Empty: those "
                "of the checkpoint in `train.initial_weights`, or without it those of the training parts of `train`. "
                "`data`: always those of the training parts.");
  data.feature("held_out_split", &D::held_out_split, config::Word{{"validation", "test"}}, OnResume::may_change,
               "Part of the structures on which the model is evaluated.");
  const config::Real average{.least = 0, .most = static_cast<double>(most_of_structure)};
  const config::Whole most{0, most_of_structure};
  data.feature("average_atoms", &D::average_atoms, average, OnResume::may_change,
               "Atoms of a structure on average, for planning where the data are not there. 0: those of `train`.");
  data.feature("average_edges", &D::average_edges, average, OnResume::may_change,
               "Edges of a structure on average, likewise.");
  data.feature("most_atoms", &D::most_atoms, most, OnResume::may_change, "Atoms of the largest structure, likewise.");
  data.feature("most_edges", &D::most_edges, most, OnResume::may_change,
               "Edges of the structure that has most of them, likewise.");
  add_stage_keys([](auto& config) -> decltype(auto) { return (graphs_of(config)); }, list);
  return list;
}

std::vector<config::Rule> graphs_rules() {
  return {
      {{"data.weights", "data.train"}, weights_match_datasets},
      {{"data.train"}, names_are_distinct},
      {{"data.average_atoms", "data.most_atoms", "data.average_edges", "data.most_edges"}, averages_are_below_most}};
}

std::vector<config::IdleRule> graphs_idle_rules() {
  return {{.key = "data.weights", .causes = {"data.train"}, .off = "[]", .beside = weights_of_one_dataset},
          stage_bytes_idle_rule(graphs_without_stage)};
}

int64_t branch_of(const GraphsConfig& config, const std::string& dataset) {
  if (config.train.size() == 1) return 0;
  const std::vector<std::string> names = config::without_folder(config.train);
  const auto found = std::ranges::find(names, config::without_folder(dataset));
  if (found != names.end()) return found - names.begin();
  throw UserError::of(
      "the model has a branch for each of {}, and {} has none of these names; name the dataset as the one whose branch "
      "it takes",
      fmt::join(names, ", "), dataset);
}

void hold_out_graphs(GraphsConfig& config, const std::vector<std::string>& datasets, const AttachedPaths& attached) {
  for (const std::string& dataset : datasets) branch_of(config, dataset);
  config.held_out = datasets;
  take_attached_graph_statistics(config, attached);
}

void take_attached_graph_statistics(GraphsConfig& config, const AttachedPaths& attached) {
  const auto found = attached.find("statistics");
  if (found != attached.end()) config.statistics = found->second;
}

std::string keep_graph_statistics(GraphsConfig& config, const AttachedPaths& attached) {
  const auto found = attached.find("statistics");
  if (found == attached.end() || !config.statistics.empty()) return "";
  config.kept_statistics = found->second;
  return fmt::format(
      "offsets and scales of labels are those of {}, and of the training data only for labels, datasets and elements "
      "that it does not know; data.statistics = \"{}\" takes all of them from the training data",
      found->second, statistics_of_data);
}

}  // namespace terrace::data
