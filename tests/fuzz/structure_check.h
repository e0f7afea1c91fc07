// Checks what holds for every structure that a reader returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include "terrace/base/error.h"
#include "terrace/data/graphs/structures/elements.h"
#include "terrace/data/graphs/structures/structure.h"

namespace terrace {

inline void check_properties(const data::Properties& properties, size_t rows) {
  for (const auto& [name, property] : properties) {
    TERRACE_CHECK(property.width > 0 && property.values.size() == rows * static_cast<size_t>(property.width),
                  "{} has {} numbers for {} rows of {}", name, property.values.size(), rows, property.width);
  }
}

// Edges may have nodes that are not there where problems_of() looks for these.
inline void check_structure(const data::Structure& structure, bool has_checked_edges) {
  const size_t atoms = structure.species.size();
  TERRACE_CHECK(structure.positions.size() == 3 * atoms, "{} coordinates of {} atoms", structure.positions.size(),
                atoms);
  for (const uint8_t element : structure.species) TERRACE_CHECK(element <= data::most_element, "element {}", element);
  TERRACE_CHECK(structure.edges.receivers.size() == structure.edges.senders.size(), "edges without an end");
  for (const auto* ends : {&structure.edges.receivers, &structure.edges.senders}) {
    for (const int32_t node : *ends) {
      TERRACE_CHECK(!has_checked_edges || (node >= 0 && static_cast<size_t>(node) < atoms), "an edge of node {}", node);
    }
  }
  check_properties(structure.of_structure, 1);
  check_properties(structure.of_atoms, atoms);
  check_properties(structure.of_edges, structure.edges.receivers.size());
}

}  // namespace terrace
