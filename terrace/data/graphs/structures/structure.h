// A structure of atoms, or another graph, as it is read from a file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "terrace/data/graphs/structures/cell.h"

namespace terrace::data {

// Numbers of one property of a structure: [rows, width], where the rows are the structure itself, its atoms or its
// edges.
struct PropertyValues {
  int64_t width = 1;
  std::vector<double> values = {};
  bool operator==(const PropertyValues&) const = default;
};

using Properties = std::map<std::string, PropertyValues>;

// An edge carries messages from its sender to its receiver.
struct GivenEdges {
  std::vector<int32_t> receivers = {}, senders = {};
};

struct Structure {
  std::vector<uint8_t> species = {};   // [atoms], atomic numbers; 0 for nodes that are no atoms
  std::vector<double> positions = {};  // [atoms, 3], angstrom for atoms
  Cell cell = {};
  bool has_edges = false;
  GivenEdges edges = {};  // only where the file gives them
  Properties of_structure = {}, of_atoms = {}, of_edges = {};
  // The declared units by name: those of energies, forces, stresses, virials and "length", from which they were
  // converted, and those of other properties, which keep them.
  std::map<std::string, std::string> units = {};
  std::vector<std::string> notes = {};  // what was left out or taken for something, as sentences

  int64_t atoms() const { return static_cast<int64_t>(species.size()); }
};

}  // namespace terrace::data
