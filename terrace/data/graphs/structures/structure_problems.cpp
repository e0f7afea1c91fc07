// Checks structures by the rules of a dataset.
#include "terrace/data/graphs/structures/structure_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "terrace/base/error.h"
#include "terrace/data/graphs/neighbours.h"
#include "terrace/data/graphs/structures/elements.h"

namespace terrace::data {
namespace {

template <typename IsWrong>
std::ptrdiff_t first_wrong(const std::vector<double>& values, const IsWrong& is_wrong) {
  const auto found = std::ranges::find_if(values, is_wrong);
  return found == values.end() ? -1 : found - values.begin();
}

// Adds values that are wrong. A NaN is a missing value, which a label that every structure has to have may not be.
void add_wrong_values(const Properties& properties, const char* of, const StructureRules& rules,
                      std::vector<std::string>& problems) {
  for (const auto& [name, property] : properties) {
    const bool is_label = std::ranges::find(rules.labels, name) != rules.labels.end();
    const std::ptrdiff_t at = first_wrong(
        property.values, [&](double value) { return is_label ? !std::isfinite(value) : std::isinf(value); });
    if (at < 0) continue;
    const std::string row = *of == '\0' ? "" : fmt::format(" of {} {}", of, at / property.width + 1);
    problems.push_back(fmt::format("{}{} is {}", name, row, property.values[static_cast<size_t>(at)]));
  }
}

std::string atom_text(const Structure& structure, int32_t atom) {
  return fmt::format("{} ({})", atom + 1, element_symbol(structure.species[static_cast<size_t>(atom)]));
}

// Adds atoms that are too close. Throws UserError where the neighbours cannot be looked for.
void add_close_atoms(const Structure& structure, double least, std::vector<std::string>& problems) {
  const bool are_atoms = std::ranges::all_of(structure.species, [](uint8_t element) { return element > 0; });
  if (!are_atoms || least <= 0) return;
  const NeighbourList near = find_neighbours(structure.positions, structure.cell, {.cutoff = least});
  if (near.edges() == 0) return;
  const int32_t i = near.receivers[0], j = near.senders[0];
  if (i == j) {
    problems.push_back(
        fmt::format("atom {} and its own image are nearer than {:g} angstrom", atom_text(structure, i), least));
  } else {
    problems.push_back(fmt::format("atoms {} and {} are nearer than {:g} angstrom", atom_text(structure, i),
                                   atom_text(structure, j), least));
  }
}

void add_wrong_edges(const Structure& structure, std::vector<std::string>& problems) {
  for (const std::vector<int32_t>* ends : {&structure.edges.receivers, &structure.edges.senders}) {
    for (size_t edge = 0; edge < ends->size(); ++edge) {
      const int32_t node = (*ends)[edge];
      if (node >= 0 && node < structure.atoms()) continue;
      problems.push_back(
          fmt::format("edge {} has the node {} of {}, counted from 0", edge + 1, node, structure.atoms()));
      return;
    }
  }
}

}  // namespace

std::vector<std::string> problems_of(const Structure& structure, const StructureRules& rules) {
  std::vector<std::string> problems;
  if (structure.atoms() == 0) problems.emplace_back("has no atoms");
  const std::string of_cell = problem_of(structure.cell);
  if (!of_cell.empty()) problems.push_back(of_cell);
  const std::ptrdiff_t position = first_wrong(structure.positions, [](double value) { return !std::isfinite(value); });
  if (position >= 0) problems.push_back(fmt::format("the position of atom {} is not finite", position / 3 + 1));
  add_wrong_values(structure.of_structure, "", rules, problems);
  add_wrong_values(structure.of_atoms, "atom", rules, problems);
  add_wrong_values(structure.of_edges, "edge", rules, problems);
  for (const std::string& label : rules.labels) {
    const bool is_there = structure.of_structure.contains(label) || structure.of_atoms.contains(label) ||
                          structure.of_edges.contains(label);
    if (!is_there) problems.push_back("has no " + label);
  }
  add_wrong_edges(structure, problems);
  if (!of_cell.empty() || position >= 0 || structure.atoms() == 0) return problems;
  try {
    add_close_atoms(structure, rules.least_distance, problems);
  } catch (const UserError& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

}  // namespace terrace::data
