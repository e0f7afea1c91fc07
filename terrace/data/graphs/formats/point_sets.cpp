// Checks named arrays and cuts them into graphs.
#include "terrace/data/graphs/formats/point_sets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/data/graphs/structures/elements.h"

namespace terrace::data {
namespace {

std::string shape_text(const std::vector<uint64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Reads whole numbers from `least` to `most`. Returns a sentence about the first number that is none, else "".
template <typename Number>
std::string read_whole(const NamedArray& array, double least, double most, std::vector<Number>& values) {
  values.clear();
  values.reserve(array.numbers.size());
  for (const double number : array.numbers) {
    if (!(number >= least && number <= most) || std::floor(number) != number) {
      return fmt::format("{} has the number {} at place {} (counted from 0), and its numbers are whole, from {} to {}",
                         array.name, number, values.size(), least, most);
    }
    values.push_back(static_cast<Number>(number));
  }
  return "";
}

constexpr double most_node = std::numeric_limits<int32_t>::max();
constexpr double most_offset = 9007199254740992.0;  // 2^53, up to which doubles have all whole numbers

}  // namespace

PointSets::PointSets(std::vector<NamedArray> arrays) {
  std::vector<std::string> problems;
  for (NamedArray& array : arrays) take(std::move(array), problems);
  if (!has_positions_) problems.emplace_back("there is no array positions [nodes, 1 to 3]");
  const auto nodes = static_cast<int64_t>(positions_.size() / 3), edges = std::ssize(senders_);
  if (problems.empty()) {
    check_offsets(first_node_, "first_node", nodes, problems);
    if (has_edges_) check_offsets(first_edge_, "first_edge", edges, problems);
    if (!has_edges_ && !first_edge_.empty()) problems.emplace_back("first_edge is there without edges");
    if (has_edges_ && first_edge_.size() != first_node_.size()) {
      problems.push_back(
          fmt::format("first_node describes {} graphs and first_edge {}; both are given for several "
                      "graphs",
                      first_node_.size() - 1, first_edge_.size() - 1));
    }
  }
  if (problems.empty()) check_rows(problems);
  throw_problems(problems, "arrays that do not fit");
}

void PointSets::take(NamedArray&& array, std::vector<std::string>& problems) {
  const auto take_numbers = [&](double most, auto& values) {
    if (array.shape.size() != 1) {
      problems.push_back(fmt::format("{} has the shape {} and is a list", array.name, shape_text(array.shape)));
    } else if (const std::string problem = read_whole(array, 0, most, values); !problem.empty()) {
      problems.push_back(problem);
    }
  };
  if (array.name == "positions") return take_positions(std::move(array), problems);
  if (array.name == "edges" || array.name == "edge_index") return take_edges(std::move(array), problems);
  if (array.name == "first_node") return take_numbers(most_offset, first_node_);
  if (array.name == "first_edge") return take_numbers(most_offset, first_edge_);
  if (array.name == "species") return take_numbers(most_element, species_);
  const size_t slash = array.name.find('/');
  Property property{.level = array.name.substr(0, slash)};
  const bool is_property = slash != std::string::npos && slash + 1 < array.name.size() &&
                           (property.level == "node" || property.level == "edge" || property.level == "graph");
  if (!is_property) {
    problems.push_back(
        fmt::format("{} is no array of point sets; there are positions, edges, edge_index, first_node, "
                    "first_edge, species, node/NAME, edge/NAME and graph/NAME",
                    array.name));
    return;
  }
  if (array.shape.empty() || array.shape.size() > 2 || (array.shape.size() == 2 && array.shape[1] == 0)) {
    problems.push_back(fmt::format("{} has the shape {}; a property has the shape [rows] or [rows, columns]",
                                   array.name, shape_text(array.shape)));
    return;
  }
  property.name = array.name.substr(slash + 1);
  property.width = array.shape.size() == 2 ? static_cast<int64_t>(array.shape[1]) : 1;
  property.numbers = std::move(array.numbers);
  properties_.push_back(std::move(property));
}

void PointSets::take_positions(NamedArray&& array, std::vector<std::string>& problems) {
  has_positions_ = true;
  if (array.shape.size() != 2 || array.shape[1] < 1 || array.shape[1] > 3) {
    problems.push_back(fmt::format("positions has the shape {}; it is [nodes, 1 to 3]", shape_text(array.shape)));
    return;
  }
  const size_t dimensions = array.shape[1];
  if (dimensions == 3) {
    positions_ = std::move(array.numbers);
    return;
  }
  positions_.assign(array.shape[0] * 3, 0);
  for (size_t i = 0; i < array.numbers.size(); ++i) {
    positions_[i / dimensions * 3 + i % dimensions] = array.numbers[i];
  }
}

void PointSets::take_edges(NamedArray&& array, std::vector<std::string>& problems) {
  if (has_edges_) problems.emplace_back("edges and edge_index are both there; give one of them");
  has_edges_ = true;
  const bool in_rows = array.shape.size() == 2 && array.shape[1] == 2 && array.name == "edges";
  const bool in_columns = array.shape.size() == 2 && array.shape[0] == 2;
  if (in_rows && in_columns) {
    problems.emplace_back(
        "edges has the shape [2, 2], in which an edge may be a row or a column; call it edge_index, with the senders "
        "in "
        "the first row and the receivers in the second");
    return;
  }
  if (!in_rows && !in_columns) {
    problems.push_back(fmt::format("{} has the shape {}; it is {}", array.name, shape_text(array.shape),
                                   array.name == "edges" ? "[edges, 2] or [2, edges]" : "[2, edges]"));
    return;
  }
  std::vector<int32_t> ends;
  if (const std::string problem = read_whole(array, 0, most_node, ends); !problem.empty()) {
    problems.push_back(problem);
    return;
  }
  const size_t edges = ends.size() / 2;
  for (size_t edge = 0; edge < edges; ++edge) {
    senders_.push_back(in_rows ? ends[2 * edge] : ends[edge]);
    receivers_.push_back(in_rows ? ends[2 * edge + 1] : ends[edges + edge]);
  }
}

// Checks offsets; where there are none, fills in those of one graph.
void PointSets::check_offsets(std::vector<int64_t>& offsets, const char* name, int64_t end,
                              std::vector<std::string>& problems) {
  if (offsets.empty()) offsets = {0, end};
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() != end || !std::ranges::is_sorted(offsets)) {
    problems.push_back(fmt::format("{} does not ascend from 0 to {}, the number of rows", name, end));
  }
}

void PointSets::check_rows(std::vector<std::string>& problems) const {
  const auto nodes = positions_.size() / 3;
  if (!species_.empty() && species_.size() != nodes) {
    problems.push_back(fmt::format("species has {} numbers for {} nodes", species_.size(), nodes));
  }
  for (const Property& property : properties_) {
    const size_t rows = property.level == "node"   ? nodes
                        : property.level == "edge" ? senders_.size()
                                                   : static_cast<size_t>(graphs());
    const size_t own = property.numbers.size() / static_cast<size_t>(property.width);
    if (own == rows) continue;
    problems.push_back(fmt::format("{}/{} has {} rows, and there are {} {}s", property.level, property.name, own, rows,
                                   property.level));
  }
}

int64_t PointSets::nodes_of(int64_t graph) const {
  return first_node_[static_cast<size_t>(graph) + 1] - first_node_[static_cast<size_t>(graph)];
}

Structure PointSets::structure(int64_t graph) const {
  const auto k = static_cast<size_t>(graph);
  const auto part = [](const auto& all, int64_t first, int64_t end, int64_t width) {
    return std::vector(all.begin() + first * width, all.begin() + end * width);
  };
  Structure structure{.positions = part(positions_, first_node_[k], first_node_[k + 1], 3), .has_edges = has_edges_};
  if (species_.empty()) {
    structure.species.assign(structure.positions.size() / 3, 0);
  } else {
    structure.species = part(species_, first_node_[k], first_node_[k + 1], 1);
  }
  if (has_edges_) {
    structure.edges = {.receivers = part(receivers_, first_edge_[k], first_edge_[k + 1], 1),
                       .senders = part(senders_, first_edge_[k], first_edge_[k + 1], 1)};
  }
  for (const Property& property : properties_) {
    PropertyValues values{.width = property.width};
    if (property.level == "graph") {
      values.values = part(property.numbers, graph, graph + 1, property.width);
      structure.of_structure[property.name] = std::move(values);
    } else {
      const std::vector<int64_t>& first = property.level == "node" ? first_node_ : first_edge_;
      values.values = part(property.numbers, first[k], first[k + 1], property.width);
      (property.level == "node" ? structure.of_atoms : structure.of_edges)[property.name] = std::move(values);
    }
  }
  return structure;
}

std::vector<NamedArray> npz_arrays(const NpzArchive& archive) {
  std::vector<NamedArray> arrays;
  for (const NpzArchive::Entry& entry : archive.entries()) {
    std::vector<std::byte> unpacked;
    const NpyArray array = archive.array(entry, unpacked);
    NamedArray named{.name = entry.name, .shape = array.shape, .numbers = std::vector<double>(array.numbers())};
    array.read(0, named.numbers);
    arrays.push_back(std::move(named));
  }
  return arrays;
}

}  // namespace terrace::data
