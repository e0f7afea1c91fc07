// Computes the statistics, and what they tell about a structure.
#include "terrace/data/graphs/dataset/graphs_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>

#include "terrace/base/terminal/progress.h"
#include "terrace/config/section_keys.h"
#include "terrace/data/graphs/structures/quantities.h"

namespace terrace::data {
namespace {

// A mean of squares.
struct Squares {
  double sum = 0, numbers = 0;
  double root() const { return numbers > 0 && sum > 0 ? std::sqrt(sum / numbers) : 1; }
};

// Returns the weight by which the property of a structure becomes that of an atom.
double atom_weight(const GraphLabel& label, int64_t atoms) {
  return label.per_atom ? 1 / static_cast<double>(atoms) : 1;
}

// Calls `use` with each training structure's species, values and weight; missing values are NaN.
template <typename Use>
void for_training_structures(const GraphsDataset& dataset, int64_t property, const GraphLabel& label, const Use& use) {
  for (const int64_t structure : dataset.part("train")) {
    const GraphView view = dataset.structure(structure);
    if (label.per_atom && view.atoms() == 0) continue;
    double weight = atom_weight(label, view.atoms());
    if (label.is_stress) weight *= stress_in_label(label.property, view.cell);
    if (weight == 0) continue;
    use(view.species, dataset.values(property, structure), weight);
  }
}

OffsetOfDataset offset_of_structures(const GraphsDataset& dataset, int64_t property, const GraphLabel& label) {
  OffsetOfDataset offset;
  if (label.offset == LabelOffset::mean) {
    offset.mean.resize(static_cast<size_t>(label.width));
    std::vector<double> counts(offset.mean.size());
    for_training_structures(dataset, property, label, [&](auto /*species*/, auto values, double weight) {
      for (size_t column = 0; column < offset.mean.size(); ++column) {
        if (std::isnan(values[column])) continue;
        offset.mean[column] += (weight * values[column] - offset.mean[column]) / ++counts[column];
      }
    });
  }
  if (label.offset == LabelOffset::elements) {
    ElementFit fit(label.width);
    for_training_structures(dataset, property, label, [&](auto species, auto values, double weight) {
      if (std::ranges::none_of(values, [](double value) { return std::isnan(value); }))
        fit.add(species, values, weight);
    });
    offset.of_elements = fit.solve();
  }
  return offset;
}

void add_squares_of_structures(const GraphsDataset& dataset, int64_t property, const GraphLabel& label,
                               const LabelStatistics& statistics, size_t number, Squares& squares) {
  for_training_structures(dataset, property, label, [&](auto species, auto values, double weight) {
    const std::vector<double> offsets = statistics.offsets_of(number, label.level, label.width, species);
    for (size_t column = 0; column < offsets.size(); ++column) {
      if (std::isnan(values[column])) continue;
      const double off = weight * (values[column] - offsets[column]);
      squares.sum += off * off;
      ++squares.numbers;
    }
  });
}

// Returns for each column of a property of atoms the number of rows of the training part that have it.
std::vector<double> rows_of_training(const GraphsDataset& dataset, int64_t property) {
  const GraphProperty& described = dataset.description().properties[static_cast<size_t>(property)];
  std::vector<double> rows(static_cast<size_t>(described.width));
  for (const int64_t structure : dataset.part("train")) {
    if (described.is_complete()) {
      for (double& count : rows) count += static_cast<double>(dataset.atoms_of(structure));
      continue;
    }
    const std::span<const double> values = dataset.values(property, structure);
    for (size_t i = 0; i < values.size(); ++i) rows[i % rows.size()] += std::isnan(values[i]) ? 0 : 1;
  }
  return rows;
}

// Adds the squares of a property of atoms, by the means and deviations in the description, and returns its offset.
OffsetOfDataset add_squares_of_atoms(const GraphsDataset& dataset, int64_t property, const GraphLabel& label,
                                     Squares& squares) {
  const GraphProperty& described = dataset.description().properties[static_cast<size_t>(property)];
  const std::vector<double> rows = rows_of_training(dataset, property);
  OffsetOfDataset offset;
  if (label.offset == LabelOffset::mean) {
    offset.mean = described.means.empty() ? std::vector<double>(rows.size()) : described.means;
  }
  for (size_t column = 0; column < described.means.size(); ++column) {
    const double mean = label.offset == LabelOffset::mean ? 0 : described.means[column];
    squares.sum += rows[column] * (mean * mean + described.deviations[column] * described.deviations[column]);
    squares.numbers += rows[column];
  }
  return offset;
}

LabelStatistics statistics_of_label(const std::vector<const GraphsDataset*>& datasets, const GraphLabel& label) {
  LabelStatistics statistics{.property = label.property,
                             .offset = label.offset,
                             .per_atom = label.per_atom,
                             .scaled_as = label.scaled_as,
                             .offsets = std::vector<std::optional<OffsetOfDataset>>(datasets.size())};
  Squares squares;
  for (size_t number = 0; number < datasets.size(); ++number) {
    const GraphsDataset& dataset = *datasets[number];
    const int64_t property = dataset.description().find(label.property, label.level);
    if (property < 0) continue;
    const std::string& units = dataset.description().properties[static_cast<size_t>(property)].units;
    if (!units.empty()) statistics.units = units;
    if (label.level == GraphLevel::atom) {
      statistics.offsets[number] = add_squares_of_atoms(dataset, property, label, squares);
    } else {
      statistics.offsets[number] = offset_of_structures(dataset, property, label);
      add_squares_of_structures(dataset, property, label, statistics, number, squares);
    }
  }
  statistics.scale = squares.root();
  return statistics;
}

// Adds numbers for the elements that `known` lacks.
void add_new_elements(const GraphsDataset& dataset, int64_t property, const GraphLabel& label, ElementNumbers& known) {
  ElementFit fit(label.width);
  bool is_new = false;
  for_training_structures(dataset, property, label, [&](auto species, auto values, double weight) {
    if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) return;
    std::vector<uint8_t> others;
    std::ranges::copy_if(species, std::back_inserter(others), [&](uint8_t one) { return !known.contains(one); });
    if (others.empty()) return;
    is_new = true;
    const std::vector<double> of_known = sum_of_elements(known, species, label.width);
    std::vector<double> left(values.begin(), values.end());
    for (size_t column = 0; column < left.size(); ++column) left[column] -= of_known[column];
    fit.add(others, left, weight);
  });
  if (!is_new) return;
  for (auto& [element, numbers] : fit.solve()) known[element] = numbers;
}

bool has_width(const std::optional<OffsetOfDataset>& offset, int64_t width) {
  if (!offset) return true;
  if (!offset->mean.empty() && std::ssize(offset->mean) != width) return false;
  return std::ranges::all_of(offset->of_elements, [&](const auto& one) { return std::ssize(one.second) == width; });
}

}  // namespace

std::vector<double> LabelStatistics::offsets_of(size_t dataset, GraphLevel level, int64_t width,
                                                std::span<const uint8_t> species) const {
  const size_t rows = level == GraphLevel::structure ? 1 : species.size();
  std::vector<double> values(rows * static_cast<size_t>(width));
  if (!offsets.at(dataset) || offset == LabelOffset::none) return values;
  if (offset == LabelOffset::elements) return sum_of_elements(offsets[dataset]->of_elements, species, width);
  const double times = per_atom ? static_cast<double>(species.size()) : 1;
  const std::vector<double>& mean = offsets[dataset]->mean;
  for (size_t i = 0; i < values.size(); ++i) values[i] = times * mean[i % mean.size()];
  return values;
}

std::vector<double> LabelStatistics::unlearned(size_t dataset, GraphLevel level, int64_t width,
                                               std::span<const uint8_t> species,
                                               std::span<const uint8_t> unknown) const {
  const auto columns = static_cast<size_t>(width);
  std::vector<double> mean_squares(columns);  // of the numbers of elements
  if (offset == LabelOffset::elements && offsets.at(dataset)) {
    const ElementNumbers& numbers = offsets[dataset]->of_elements;
    for (const auto& [element, values] : numbers) {
      for (size_t column = 0; column < columns; ++column) {
        mean_squares[column] += values[column] * values[column] / static_cast<double>(numbers.size());
      }
    }
  }
  const bool of_atoms = level == GraphLevel::atom;
  const size_t rows = of_atoms ? species.size() : 1;
  std::vector<double> deviations;
  for (size_t row = 0; row < rows; ++row) {
    const std::span<const uint8_t> own = of_atoms ? species.subspan(row, 1) : species;
    double unknown_atoms = 0;
    std::vector<double> variances(columns);
    for (const uint8_t element : unknown) {
      const auto count = static_cast<double>(std::ranges::count(own, element));
      unknown_atoms += count;
      for (size_t column = 0; column < columns; ++column) variances[column] += count * count * mean_squares[column];
    }
    const double of_scale = scale * (per_atom ? unknown_atoms : std::min(unknown_atoms, 1.0));
    for (const double variance : variances) deviations.push_back(std::sqrt(variance + of_scale * of_scale));
  }
  return deviations;
}

std::optional<size_t> GraphsStatistics::find_dataset(const std::string& prefix) const {
  if (datasets.size() == 1) return 0;
  const auto found = std::ranges::find(datasets, config::without_folder(prefix));
  if (found == datasets.end()) return std::nullopt;
  return static_cast<size_t>(found - datasets.begin());
}

std::vector<uint8_t> GraphsStatistics::unknown_elements(std::span<const uint8_t> species) const {
  std::set<uint8_t> unknown;
  for (const uint8_t element : species) {
    if (!std::ranges::binary_search(elements, element)) unknown.insert(element);
  }
  return {unknown.begin(), unknown.end()};
}

bool GraphsStatistics::has(const GraphLabel& label) const {
  const auto found = labels.find(label.name);
  if (found == labels.end()) return false;
  const LabelStatistics& own = found->second;
  return own.property == label.property && own.offset == label.offset && own.per_atom == label.per_atom &&
         own.scaled_as == label.scaled_as &&
         std::ranges::all_of(own.offsets, [&](const auto& offset) { return has_width(offset, label.width); });
}

std::vector<std::string> GraphsStatistics::problems_with(const GraphsRequest& request, const std::string& path) const {
  std::vector<std::string> problems;
  for (const GraphLabel& label : request.labels) {
    const auto found = labels.find(label.name);
    if (found == labels.end()) {
      problems.push_back(
          fmt::format("{} has no offset and scale of the label {}; leave data.statistics out to use those "
                      "of the training data",
                      path, label.name));
      continue;
    }
    const LabelStatistics& of_label = found->second;
    if (of_label.property != label.property || of_label.offset != label.offset || of_label.per_atom != label.per_atom ||
        of_label.scaled_as != label.scaled_as) {
      problems.push_back(
          fmt::format("{} has the label {} for the property {}, or with another offset or scale than the "
                      "model's; leave data.statistics out to use those of the training data",
                      path, label.name, of_label.property));
    }
    if (!std::ranges::all_of(of_label.offsets, [&](const auto& offset) { return has_width(offset, label.width); })) {
      problems.push_back(fmt::format("{} has another number of columns of the label {} than the model's {}", path,
                                     label.name, label.width));
    }
  }
  return problems;
}

GraphsStatistics compute_graphs_statistics(const std::vector<const GraphsDataset*>& datasets,
                                           const std::vector<const EdgeCounts*>& counts, const GraphsRequest& request) {
  GraphsStatistics statistics;
  std::set<uint8_t> elements;
  double atoms = 0, edges = 0, log_degrees = 0;
  for (size_t number = 0; number < datasets.size(); ++number) {
    const GraphsDataset& dataset = *datasets[number];
    statistics.datasets.push_back(config::without_folder(dataset.prefix()));
    for (const int64_t structure : dataset.part("train")) {
      const std::span<const uint8_t> species = dataset.structure(structure).species;
      elements.insert(species.begin(), species.end());
      atoms += static_cast<double>(species.size());
      edges += static_cast<double>(edges_of(dataset, *counts[number], structure));
      log_degrees += log_degrees_of(dataset, *counts[number], structure);
    }
  }
  statistics.elements.assign(elements.begin(), elements.end());
  if (atoms > 0) statistics.degree_means = {log_degrees / atoms, edges / atoms};
  Progress progress("statistics of labels", request.labels.size());
  uint64_t done = 0;
  for (const GraphLabel& label : request.labels) {
    statistics.labels[label.name] = statistics_of_label(datasets, label);
    progress.update(++done, label.name);
  }
  std::map<std::string, double> own;
  for (const auto& [name, label] : statistics.labels) own[name] = label.scale;
  for (auto& [name, label] : statistics.labels) {
    if (!label.scaled_as.empty()) label.scale = own.at(label.scaled_as);
  }
  return statistics;
}

GraphsStatistics with_kept_statistics(GraphsStatistics own, const GraphsStatistics& kept,
                                      const std::vector<const GraphsDataset*>& datasets, const GraphsRequest& request) {
  own.degree_means = kept.degree_means;
  std::set<ElementNumbers::key_type> elements(own.elements.begin(), own.elements.end());
  elements.insert(kept.elements.begin(), kept.elements.end());
  own.elements.assign(elements.begin(), elements.end());
  for (const GraphLabel& label : request.labels) {
    if (!kept.has(label)) continue;
    const LabelStatistics& before = kept.labels.find(label.name)->second;
    LabelStatistics& now = own.labels[label.name];
    now.scale = before.scale;
    for (size_t number = 0; number < datasets.size(); ++number) {
      const std::optional<size_t> known = kept.find_dataset(own.datasets[number]);
      if (!known || !before.offsets.at(*known)) continue;
      now.offsets[number] = before.offsets[*known];
      const int64_t property = datasets[number]->description().find(label.property, label.level);
      if (property < 0 || label.level != GraphLevel::structure || label.offset != LabelOffset::elements) continue;
      add_new_elements(*datasets[number], property, label, now.offsets[number]->of_elements);
    }
  }
  // A new label may have the scale of one that is kept.
  for (auto& [name, label] : own.labels) {
    const auto of = label.scaled_as.empty() ? own.labels.end() : own.labels.find(label.scaled_as);
    if (of != own.labels.end()) label.scale = of->second.scale;
  }
  return own;
}

}  // namespace terrace::data
