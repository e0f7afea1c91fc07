// Finds what does not fit between a configuration, a model and datasets of graphs, and computes the sizes of graphs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/spelling.h"
#include "terrace/data/graphs/graphs_source.h"
#include "terrace/data/graphs/structures/quantities.h"
#include "terrace/data/kept_statistics.h"

namespace terrace::data {
namespace {

std::vector<std::string> names_at(const GraphsDescription& description, GraphLevel level) {
  std::vector<std::string> names;
  for (const GraphProperty& property : description.properties) {
    if (property.level == level) names.push_back(property.name);
  }
  return names;
}

std::string names_there(const std::string& name, const std::vector<std::string>& names) {
  if (names.empty()) return "it has none";
  const std::string nearest = nearest_word(name, names);
  return fmt::format("it has {}{}", fmt::join(names, ", "),
                     nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

struct DescribedDataset {
  std::string prefix;
  GraphsDescription description;
};

class GraphsCheck {
 public:
  GraphsCheck(const GraphsConfig& config, const GraphsRequest& request) : config_(config), request_(request) {}

  std::vector<std::string> problems(bool evaluates) {
    read_descriptions();
    check_request();
    for (const DescribedDataset& dataset : datasets_) check_features(dataset);
    check_widths();
    check_labels();
    if (problems_.empty()) check_statistics();
    if (problems_.empty()) check_parts(evaluates);
    return std::move(problems_);
  }

 private:
  bool trains() const { return config_.held_out.empty(); }

  void add(std::string problem) { problems_.push_back(std::move(problem)); }

  template <typename Read>
  void keep_error(const Read& read) {
    try {
      read();
    } catch (const UserError& error) {
      if (error.code == ExitCode::stopped) throw;
      add(error.what());
    }
  }

  void read_descriptions() {
    for (const std::string& prefix : trains() ? config_.train : config_.held_out) {
      keep_error([&] { datasets_.push_back({prefix, read_graphs_description(graphs_description_path(prefix))}); });
    }
  }

  void check_request() {
    if (!request_.given_edges && !request_.edge_features.empty()) {
      add(
          fmt::format("features of edges ({}) belong to edges that the data give, and the model takes all within {} "
                      "angstrom",
                      fmt::join(request_.edge_features, ", "), request_.radius));
    }
    for (const GraphLabel& label : request_.labels) {
      if (label.level == GraphLevel::edge) {
        add(fmt::format("the label {} is a property of edges; labels are those of structures or atoms", label.name));
      }
      if (label.level != GraphLevel::structure && (label.per_atom || label.offset == LabelOffset::elements)) {
        add(fmt::format(
            "the label {} is a property of atoms: a scale per atom and an offset of elements are for those of "
            "structures",
            label.name));
      }
      if (label.scaled_as.empty()) continue;
      const auto other = std::ranges::find(request_.labels, label.scaled_as, &GraphLabel::name);
      if (other != request_.labels.end() && other->scaled_as.empty()) continue;
      add(fmt::format("the label {} is to be scaled as {}, which is no label with a scale of its own", label.name,
                      label.scaled_as));
    }
  }

  void check_property(const DescribedDataset& dataset, const std::string& name, GraphLevel level) {
    if (const int64_t number = dataset.description.find(name, level); number >= 0) {
      const GraphProperty& property = dataset.description.properties[static_cast<size_t>(number)];
      if (property.is_complete()) return;
      add(
          fmt::format("{} has {} of {}, which the model reads, not in all structures: {} have none and {} are NaN; "
                      "prepare those that have it apart (--labels {})",
                      dataset.prefix, name, plural(2, std::string(word_of(level))),
                      counted(static_cast<uint64_t>(property.structures_without), "structure"),
                      counted(static_cast<uint64_t>(property.missing_values), "value"), name));
      return;
    }
    add(fmt::format("{} has no property {} of {}; {}", dataset.prefix, name, plural(2, std::string(word_of(level))),
                    names_there(name, names_at(dataset.description, level))));
  }

  void check_features(const DescribedDataset& dataset) {
    for (const std::string& name : request_.atom_features) check_property(dataset, name, GraphLevel::atom);
    if (request_.given_edges && !dataset.description.has_edges) {
      add(fmt::format("{} gives no edges; use edges within a radius, or prepare files with edges", dataset.prefix));
    } else {
      for (const std::string& name : request_.edge_features) check_property(dataset, name, GraphLevel::edge);
    }
    if (request_.charge.empty()) return;
    check_property(dataset, request_.charge, GraphLevel::structure);
    const int64_t charge = dataset.description.find(request_.charge, GraphLevel::structure);
    if (charge < 0 || dataset.description.properties[static_cast<size_t>(charge)].width == 1) return;
    add(fmt::format("{} of {} has {} columns, and a charge has one", request_.charge, dataset.prefix,
                    dataset.description.properties[static_cast<size_t>(charge)].width));
  }

  void check_widths() {
    const auto check = [&](const std::vector<std::string>& names, GraphLevel level) {
      for (const std::string& name : names) {
        int64_t width = 0;
        std::string first;
        for (const DescribedDataset& dataset : datasets_) {
          const int64_t number = dataset.description.find(name, level);
          if (number < 0) continue;
          const int64_t own = dataset.description.properties[static_cast<size_t>(number)].width;
          if (first.empty()) {
            first = dataset.prefix;
            width = own;
          } else if (own != width) {
            add(fmt::format("{} has {} in {} and {} in {}", name, counted(static_cast<uint64_t>(width), "column"),
                            first, own, dataset.prefix));
          }
        }
      }
    };
    check(request_.atom_features, GraphLevel::atom);
    check(request_.edge_features, GraphLevel::edge);
  }

  // In training each label has to be in a dataset; for held-out data one label is enough.
  void check_labels() {
    const size_t before = problems_.size();
    size_t missing = 0;
    for (const GraphLabel& label : request_.labels) {
      if (has_label(label) || is_learned_by_derivative(label)) continue;
      ++missing;
      add_missing(label);
    }
    if (!trains() && missing < request_.labels.size()) problems_.resize(before);
    for (const GraphLabel& label : request_.labels) check_width(label);
    for (const GraphLabel& label : request_.labels) check_units(label);
  }

  // Returns whether the data have a derivative of the label: from forces without energies the model learns an energy up
  // to a constant.
  bool is_learned_by_derivative(const GraphLabel& label) const {
    return std::ranges::any_of(request_.labels, [&](const GraphLabel& other) {
      return other.derivative_of == label.name && has_label(other);
    });
  }

  std::string units_of(const DescribedDataset& dataset, const GraphLabel& label) const {
    const int64_t number = dataset.description.find(label.property, label.level);
    return number < 0 ? "" : dataset.description.properties[static_cast<size_t>(number)].units;
  }

  // One label has one unit in all datasets. A derivative has the unit of its label over angstrom.
  void check_units(const GraphLabel& label) {
    std::string units, first;
    for (const DescribedDataset& dataset : datasets_) {
      const std::string own = units_of(dataset, label);
      if (own.empty() || own == units) continue;
      if (units.empty()) {
        units = own;
        first = dataset.prefix;
        continue;
      }
      add(fmt::format("{} is in {} in {} and in {} in {}; prepare both in one unit", label.property, units, first, own,
                      dataset.prefix));
    }
    const auto whole = std::ranges::find(request_.labels, label.derivative_of, &GraphLabel::name);
    if (label.derivative_of.empty() || whole == request_.labels.end()) return;
    for (const DescribedDataset& dataset : datasets_) {
      const std::string problem =
          problem_of_derivative(units_of(dataset, *whole), units_of(dataset, label),
                                !label.is_stress                                          ? PhysicalQuantity::forces
                                : quantity_of(label.property) == PhysicalQuantity::virial ? PhysicalQuantity::virial
                                                                                          : PhysicalQuantity::stress);
      if (!problem.empty())
        add(fmt::format("{}: {} and {}: {}", dataset.prefix, whole->property, label.property, problem));
    }
  }

  bool has_label(const GraphLabel& label) const {
    return std::ranges::any_of(datasets_, [&](const DescribedDataset& dataset) {
      return dataset.description.find(label.property, label.level) >= 0;
    });
  }

  void check_width(const GraphLabel& label) {
    for (const DescribedDataset& dataset : datasets_) {
      const int64_t number = dataset.description.find(label.property, label.level);
      if (number < 0) continue;
      const int64_t width = dataset.description.properties[static_cast<size_t>(number)].width;
      if (width == label.width) continue;
      add(fmt::format("{} of {} has {}, and the model's label {} {}", label.property, dataset.prefix,
                      counted(static_cast<uint64_t>(width), "column"), label.name, label.width));
    }
  }

  void add_missing(const GraphLabel& label) {
    for (const DescribedDataset& dataset : datasets_) {
      const std::vector<std::string> names = names_at(dataset.description, label.level);
      add(fmt::format("{} has no property {} of {} for the label {}; {}", dataset.prefix, label.property,
                      plural(2, std::string(word_of(label.level))), label.name, names_there(label.property, names)));
    }
  }

  void check_statistics() {
    if (!names_statistics_file(config_.statistics)) {
      if (!trains()) add("held-out data are evaluated with the statistics of a training; give data.statistics");
      return;
    }
    keep_error([&] {
      const GraphsStatistics statistics = read_graphs_statistics(config_.statistics);
      for (std::string& problem : statistics.problems_with(request_, config_.statistics)) add(std::move(problem));
      check_units_of_statistics(statistics);
      for (const DescribedDataset& dataset : datasets_) {
        const std::string named = trains() || config_.train.empty()
                                      ? dataset.prefix
                                      : config_.train.at(static_cast<size_t>(branch_of(config_, dataset.prefix)));
        if (statistics.find_dataset(named)) continue;
        add(
            fmt::format("{} has offsets of the datasets {}, and none of {}; leave data.statistics out to use those of "
                        "the training data",
                        config_.statistics, fmt::join(statistics.datasets, ", "), named));
      }
    });
  }

  // A run does not go on in another unit than the one in which the kept statistics were learned.
  void check_units_of_statistics(const GraphsStatistics& statistics) {
    for (const GraphLabel& label : request_.labels) {
      const auto found = statistics.labels.find(label.name);
      if (found == statistics.labels.end() || found->second.units.empty()) continue;
      for (const DescribedDataset& dataset : datasets_) {
        const std::string own = units_of(dataset, label);
        if (own.empty() || own == found->second.units) continue;
        add(fmt::format("{} has {} in {}, and {} in {}; prepare the data in that unit", config_.statistics,
                        label.property, found->second.units, dataset.prefix, own));
      }
    }
  }

  uint64_t structures_in(const DescribedDataset& dataset, const std::string& part) const {
    const auto found = dataset.description.arrays.find(part);
    return found == dataset.description.arrays.end() ? 0 : found->second.numbers();
  }

  void check_parts(bool evaluates) {
    uint64_t held_out = 0;
    for (const DescribedDataset& dataset : datasets_) {
      if (trains() && structures_in(dataset, "train") == 0) {
        add(fmt::format("{} has no structures for training; prepare it with another --split", dataset.prefix));
      }
      held_out += structures_in(dataset, config_.held_out_split);
    }
    if (!trains() || !evaluates || held_out > 0 || !problems_.empty()) return;
    add(fmt::format(
        "{} {} no structures in the part {}; prepare with --split 0.8,0.1,0.1, or use "
        "train.evaluate_every = 0",
        fmt::join(config_.train, ", "), plural(config_.train.size(), "has", "have"), config_.held_out_split));
  }

  const GraphsConfig& config_;
  const GraphsRequest& request_;
  std::vector<DescribedDataset> datasets_;
  std::vector<std::string> problems_;
};

// Sizes of the structures of which a run takes steps, or of those that are held out.
struct SizesOfPart {
  int64_t structures = 0, atoms = 0, edges = 0, most_atoms = 0, most_edges = 0;
};

Json json_of_part(const GraphsDataset& dataset, const EdgeCounts& counts, std::span<const int64_t> part) {
  SizesOfPart sizes{.structures = std::ssize(part)};
  for (const int64_t structure : part) {
    const int64_t atoms = dataset.atoms_of(structure), edges = edges_of(dataset, counts, structure);
    sizes.atoms += atoms;
    sizes.edges += edges;
    sizes.most_atoms = std::max(sizes.most_atoms, atoms);
    sizes.most_edges = std::max(sizes.most_edges, edges);
  }
  return {sizes.structures, sizes.atoms, sizes.edges, sizes.most_atoms, sizes.most_edges};
}

void add_sizes(const GraphsDataset& dataset, const GraphsRequest& request, const GraphsConfig& config,
               SizesOfPart& all) {
  const bool trains = config.held_out.empty();
  const EdgeCounts counts = edge_counts(dataset, request);
  const std::string question =
      fmt::format("sizes of {} structures {}", trains ? "training" : "held-out", json_of_request(request).dump());
  const std::string found = found_in(files_with_counts(dataset, request), question, [&] {
    return json_of_part(dataset, counts, trains ? dataset.part("train") : held_out_part(config, dataset)).dump();
  });
  const auto [structures, atoms, edges, most_atoms, most_edges] = parse_json(found).get<std::array<int64_t, 5>>();
  all.structures += structures;
  all.atoms += atoms;
  all.edges += edges;
  all.most_atoms = std::max(all.most_atoms, most_atoms);
  all.most_edges = std::max(all.most_edges, most_edges);
}

}  // namespace

std::vector<std::string> problems_with_graphs(const GraphsConfig& config, const GraphsRequest& request,
                                              bool evaluates) {
  return GraphsCheck(config, request).problems(evaluates);
}

std::vector<std::pair<std::string, std::string>> facts_of_graphs(const GraphsConfig& config) {
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&](const std::filesystem::path& path) {
    try {
      facts.emplace_back("the content of " + path.string(), checksum(MappedFile(path).bytes()));
    } catch (const UserError& error) {
      facts.emplace_back("the content of " + path.string(), fmt::format("unreadable ({})", error.what()));
    }
  };
  for (const std::string& prefix : config.held_out.empty() ? config.train : config.held_out) {
    add(graphs_description_path(prefix));
  }
  if (names_statistics_file(config.statistics)) add(config.statistics);
  return facts;
}

GraphSizes sizes_of_graphs(const GraphsConfig& config, const GraphsRequest& request) {
  GraphSizes sizes{.average_atoms = config.average_atoms,
                   .average_edges = config.average_edges,
                   .most_atoms = config.most_atoms,
                   .most_edges = config.most_edges};
  if (sizes.average_atoms > 0 && sizes.average_edges > 0) return sizes;
  const bool trains = config.held_out.empty();
  SizesOfPart all;
  for (const std::string& prefix : trains ? config.train : config.held_out) {
    const std::filesystem::path description = graphs_description_path(prefix);
    if (!std::filesystem::exists(description)) {
      throw UserError::of(
          "{} does not exist; make the dataset with terrace data prepare --kind graphs INPUTS --output {}, or give the "
          "sizes of a structure: data.average_atoms, most_atoms, average_edges and most_edges",
          description.string(), prefix);
    }
    add_sizes(GraphsDataset(prefix), request, config, all);
  }
  const auto& [structures, atoms, edges, most_atoms, most_edges] = all;
  if (structures == 0) {
    throw UserError::of(
        "{} have no structures for training; give data.average_atoms, most_atoms, average_edges and "
        "most_edges",
        fmt::join(trains ? config.train : config.held_out, ", "));
  }
  if (sizes.average_atoms == 0) {
    sizes.average_atoms = static_cast<double>(atoms) / static_cast<double>(structures);
    sizes.most_atoms = most_atoms;
  }
  if (sizes.average_edges == 0) {
    sizes.average_edges = static_cast<double>(edges) / static_cast<double>(structures);
    sizes.most_edges = most_edges;
  }
  return sizes;
}

}  // namespace terrace::data
