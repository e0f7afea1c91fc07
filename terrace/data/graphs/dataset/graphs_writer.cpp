// Collects arrays of structures on disk, then parts and statistics of them.
#include "terrace/data/graphs/dataset/graphs_writer.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "terrace/base/text/plural.h"
#include "terrace/data/graphs/dataset/graph_parts.h"
#include "terrace/data/graphs/structures/elements.h"

namespace terrace::data {
namespace {

constexpr std::array<const char*, 4> words_of_split_rules = {"structure", "composition", "source", "geometry"};

template <typename Number>
uint64_t hash_of(std::span<const Number> numbers, uint64_t seed) {
  return XXH3_64bits_withSeed(numbers.data(), numbers.size_bytes(), seed);
}

uint64_t size_of(int64_t count) { return static_cast<uint64_t>(count); }

}  // namespace

GraphsWriter::GraphsWriter(std::filesystem::path folder, GraphSplit split)
    : folder_(folder.empty() ? "." : std::move(folder)), split_(split) {
  for (const auto& [name, type] :
       {std::pair("species", NumberType::uint8), std::pair("positions", NumberType::float64),
        std::pair("cells", NumberType::float64), std::pair("periodic", NumberType::uint8),
        std::pair("source", NumberType::int32), std::pair("number", NumberType::int64),
        std::pair("receivers", NumberType::int32), std::pair("senders", NumberType::int32)}) {
    arrays_.try_emplace(name, folder_, type);
  }
}

uint64_t GraphsWriter::group_of(const Structure& structure, int32_t source) const {
  switch (split_.by) {
    case SplitBy::source:
      return static_cast<uint64_t>(source);
    case SplitBy::composition: {
      std::vector<uint8_t> sorted = structure.species;
      std::ranges::sort(sorted);
      // The formula in smallest whole numbers, so that cells of one crystal stay together.
      std::array<int64_t, most_element + 1> counts = {};
      for (const uint8_t element : sorted) ++counts[element];
      int64_t divisor = 0;
      for (const int64_t count : counts) divisor = std::gcd(divisor, count);
      for (int64_t& count : counts) count /= std::max<int64_t>(divisor, 1);
      return hash_of(std::span<const int64_t>(counts), 0);
    }
    case SplitBy::structure:
    case SplitBy::geometry:
      break;
  }
  uint64_t hash = hash_of(std::span<const uint8_t>(structure.species), 0);
  hash = hash_of(std::span<const double>(structure.positions), hash);
  for (const Vector3& vector : structure.cell.vectors) hash = hash_of(std::span<const double>(vector), hash);
  hash = hash_of(std::span<const int32_t>(structure.edges.receivers), hash);
  hash = hash_of(std::span<const int32_t>(structure.edges.senders), hash);
  if (split_.by == SplitBy::geometry) return hash;
  // The loads on one mesh are different structures, though no name says which of its properties are inputs.
  for (const Properties* properties : {&structure.of_structure, &structure.of_atoms, &structure.of_edges}) {
    for (const auto& [name, property] : *properties) {
      hash = hash_of(std::span<const char>(name), hash);
      hash = hash_of(std::span<const double>(property.values), hash);
    }
  }
  return hash;
}

std::string GraphsWriter::add(const Structure& structure, int32_t source, int64_t number) {
  if (groups_.empty()) has_edges_ = structure.has_edges;
  if (structure.has_edges != has_edges_) {
    return has_edges_ ? "gives no edges, as the structures before it do"
                      : "gives edges, which the structures before it do not; prepare them apart";
  }
  groups_.push_back(group_of(structure, source));
  first_atom_.push_back(first_atom_.back() + structure.atoms());
  first_edge_.push_back(first_edge_.back() + static_cast<int64_t>(structure.edges.receivers.size()));
  arrays_.at("species").append(std::span<const uint8_t>(structure.species));
  arrays_.at("positions").append(std::span<const double>(structure.positions));
  for (size_t k = 0; k < 3; ++k) {
    arrays_.at("cells").append(std::span<const double>(structure.cell.vectors[k]));
    arrays_.at("periodic").append_one(static_cast<uint8_t>(structure.cell.periodic[k]));
  }
  arrays_.at("source").append_one(source);
  arrays_.at("number").append_one(number);
  arrays_.at("receivers").append(std::span<const int32_t>(structure.edges.receivers));
  arrays_.at("senders").append(std::span<const int32_t>(structure.edges.senders));
  const auto rows_before = [](const std::vector<int64_t>& first) { return first[first.size() - 2]; };
  const auto edges = std::ssize(structure.edges.receivers);
  add_properties(structure.of_structure, GraphLevel::structure, structures() - 1, 1);
  add_properties(structure.of_atoms, GraphLevel::atom, rows_before(first_atom_), structure.atoms());
  add_properties(structure.of_edges, GraphLevel::edge, rows_before(first_edge_), edges);
  return "";
}

// Appends properties, and NaN in a structure's rows of the properties that it does not have.
void GraphsWriter::add_properties(const Properties& properties, GraphLevel level, int64_t rows_before, int64_t rows) {
  const auto append_missing = [](Column& column, int64_t count) {
    constexpr size_t most_at_once = 1 << 16;
    size_t left = size_of(count * column.width);
    const std::vector<double> missing(std::min(left, most_at_once), std::numeric_limits<double>::quiet_NaN());
    while (left > 0) {
      const size_t part = std::min(left, missing.size());
      column.file.append(std::span<const double>(missing).first(part));
      left -= part;
    }
  };
  for (const auto& [name, property] : properties) {
    auto found = columns_.find({level, name});
    if (found == columns_.end()) {
      found = columns_
                  .emplace(Key{level, name},
                           Column{.file = ArrayFile(folder_, NumberType::float64), .width = property.width})
                  .first;
      append_missing(found->second, rows_before);
    }
    Column& column = found->second;
    column.is_uniform = column.is_uniform && column.width == property.width;
    ++column.structures;
    if (!column.is_uniform) continue;
    column.missing_values += std::ranges::count_if(property.values, [](double value) { return std::isnan(value); });
    column.file.append(std::span<const double>(property.values));
  }
  for (auto& [key, column] : columns_) {
    if (key.first == level && column.is_uniform && !properties.contains(key.second)) append_missing(column, rows);
  }
}

std::vector<std::string> GraphsWriter::remarks() const {
  std::vector<std::string> sentences;
  for (const auto& [key, column] : columns_) {
    const std::string what = fmt::format("{} of {}", key.second, plural(2, std::string(word_of(key.first))));
    if (!column.is_uniform) {
      sentences.push_back(what + " is left out: its number of columns differs between structures");
      continue;
    }
    if (column.structures < structures()) {
      sentences.push_back(fmt::format("{}: {} of {} have it; the others are not trained on it", what, column.structures,
                                      counted(size_of(structures()), "structure")));
    }
    if (column.missing_values == 0) continue;
    sentences.push_back(fmt::format("{}: {} {} NaN and {} for missing", what,
                                    counted(size_of(column.missing_values), "value"),
                                    plural(size_of(column.missing_values), "is", "are"),
                                    plural(size_of(column.missing_values), "counts", "count")));
  }
  return sentences;
}

std::vector<std::string> GraphsWriter::property_names() const {
  std::vector<std::string> names;
  for (const auto& [key, column] : columns_) {
    if (column.is_uniform) names.push_back(key.second);
  }
  return names;
}

bool GraphsWriter::all_have(const std::string& property) const {
  return std::ranges::any_of(columns_, [&](const auto& entry) {
    const auto& [key, column] = entry;
    return key.second == property && column.is_uniform && column.structures == structures();
  });
}

uint64_t GraphsWriter::bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, array] : arrays_) sum += array.numbers() * bytes_of(array.type());
  for (const auto& [key, column] : columns_) sum += column.file.numbers() * sizeof(double);
  return sum;
}

// Computes moments over the values that are there by Welford's method, a row at a time.
void GraphsWriter::compute_moments(Column& column, GraphProperty& property) const {
  const auto width = static_cast<size_t>(column.width);
  std::vector<double> mean(width), squares(width);
  std::vector<int64_t> counts(width);
  size_t structure = 0;
  int64_t row = 0;
  size_t of_row = 0;
  const auto end_of = [&](size_t k) {
    if (property.level == GraphLevel::structure) return static_cast<int64_t>(k) + 1;
    return property.level == GraphLevel::atom ? first_atom_[k + 1] : first_edge_[k + 1];
  };
  column.file.read([&](std::span<const std::byte> block) {
    std::vector<double> values(block.size() / sizeof(double));
    std::memcpy(values.data(), block.data(), block.size());
    for (const double value : values) {
      while (end_of(structure) <= row) ++structure;
      if (parts_[structure] == 0 && !std::isnan(value)) {
        const double off = value - mean[of_row];
        mean[of_row] += off / static_cast<double>(++counts[of_row]);
        squares[of_row] += off * (value - mean[of_row]);
      }
      if (++of_row == width) {
        of_row = 0;
        ++row;
      }
    }
  });
  if (std::ranges::any_of(counts, [](int64_t count) { return count == 0; })) return;
  property.means = mean;
  for (size_t column_of = 0; column_of < width; ++column_of) {
    property.deviations.push_back(std::sqrt(squares[column_of] / static_cast<double>(counts[column_of])));
  }
}

void GraphsWriter::count_elements(GraphStatistics& statistics) {
  std::array<int64_t, most_element + 1> counts = {};
  size_t structure = 0;
  int64_t atom = 0, atoms = 0;
  arrays_.at("species").read([&](std::span<const std::byte> block) {
    for (const std::byte element : block) {
      while (first_atom_[structure + 1] <= atom) ++structure;
      if (parts_[structure] == 0) ++counts[static_cast<size_t>(element)];
      ++atom;
    }
  });
  for (size_t k = 0; k < parts_.size(); ++k) {
    if (parts_[k] != 0) continue;
    ++statistics.structures;
    atoms += first_atom_[k + 1] - first_atom_[k];
    statistics.most_atoms = std::max(statistics.most_atoms, first_atom_[k + 1] - first_atom_[k]);
  }
  for (int32_t element = 1; element <= most_element; ++element) {
    const int64_t count = counts[static_cast<size_t>(element)];
    if (count > 0) statistics.atoms_of_element[std::string(element_symbol(element))] = count;
  }
  if (statistics.structures > 0) {
    statistics.mean_atoms = static_cast<double>(atoms) / static_cast<double>(statistics.structures);
  }
}

void GraphsWriter::divide(GraphsDescription& description, AtomicFile& file, const std::function<void(uint64_t)>& look) {
  parts_ = divide_structures(groups_, split_.shares, split_.seed);
  for (size_t part = 0; part < 3; ++part) {
    ArrayFile members(folder_, NumberType::int64);
    for (size_t k = 0; k < parts_.size(); ++k) {
      if (parts_[k] == part) members.append_one(static_cast<int64_t>(k));
    }
    description.arrays[graph_splits[part]] = members.copy_to(file, {members.numbers()}, look);
  }
  if (split_.shares[0] == 1) return;
  description.split_by = words_of_split_rules[static_cast<size_t>(split_.by)];
  description.shares.assign(split_.shares.begin(), split_.shares.end());
  description.seed = split_.seed;
}

GraphsDescription GraphsWriter::finish(AtomicFile& file, std::vector<std::string> sources,
                                       const std::map<std::string, std::string>& units,
                                       const std::function<void(uint64_t)>& look) {
  GraphsDescription description{.structures = structures(),
                                .atoms = first_atom_.back(),
                                .edges = first_edge_.back(),
                                .has_edges = has_edges_,
                                .sources = std::move(sources)};
  const uint64_t count = size_of(structures()), atoms = size_of(description.atoms), edges = size_of(description.edges);
  divide(description, file, look);
  count_elements(description.statistics);
  std::map<std::string, std::vector<uint64_t>> sizes = {{"species", {atoms}},     {"positions", {atoms, 3}},
                                                        {"cells", {count, 3, 3}}, {"periodic", {count, 3}},
                                                        {"source", {count}},      {"number", {count}}};
  const auto add_offsets = [&](const char* name, const std::vector<int64_t>& offsets) {
    ArrayFile array(folder_, NumberType::int64);
    array.append(std::span<const int64_t>(offsets));
    description.arrays[name] = array.copy_to(file, {count + 1}, look);
  };
  add_offsets("first_atom", first_atom_);
  if (has_edges_) {
    sizes.insert({{"receivers", {edges}}, {"senders", {edges}}});
    add_offsets("first_edge", first_edge_);
  }
  for (const auto& [name, shape] : sizes) description.arrays[name] = arrays_.at(name).copy_to(file, shape, look);
  for (auto& [key, column] : columns_) {
    if (!column.is_uniform) continue;
    GraphProperty property{.name = key.second,
                           .level = key.first,
                           .width = column.width,
                           .structures_without = structures() - column.structures,
                           .missing_values = column.missing_values};
    if (const auto unit = units.find(property.name); unit != units.end()) property.units = unit->second;
    compute_moments(column, property);
    const uint64_t rows = property.level == GraphLevel::structure ? count
                          : property.level == GraphLevel::atom    ? atoms
                                                                  : edges;
    property.array = column.file.copy_to(file, {rows, size_of(column.width)}, look);
    description.properties.push_back(std::move(property));
  }
  return description;
}

}  // namespace terrace::data
