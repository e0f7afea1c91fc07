// Graphs as named arrays: point sets with given edges, as numpy's .npz and HDF5 files hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "terrace/data/graphs/structures/structure.h"
#include "terrace/data/npz_archive.h"

namespace terrace::data {

// An array of a file, row-major.
struct NamedArray {
  std::string name = {};
  std::vector<uint64_t> shape = {};
  std::vector<double> numbers = {};
};

// G graphs with N nodes and E edges in all, one graph after another:
//   "positions" [N, D]        D from 1 to 3; further coordinates are 0
//   "edges" [E, 2] or [2, E]  the sender and the receiver of each edge, numbers of nodes in their graph from 0
//   "edge_index" [2, E]       the same in this order only, for files in which "edges" would be 2 x 2
//   "first_node" [G + 1], "first_edge" [G + 1]  ascending offsets; without them there is one graph
//   "species" [N]             atomic numbers; without it the nodes are no atoms
//   "node/NAME" [N] or [N, W], "edge/NAME" [E] or [E, W], "graph/NAME" [G] or [G, W]  properties
// Positions are required. Without edges the graphs give none.
class PointSets {
 public:
  // Throws UserError that names every array which does not fit the others, or which no layout has.
  explicit PointSets(std::vector<NamedArray> arrays);

  int64_t graphs() const { return static_cast<int64_t>(first_node_.size()) - 1; }
  int64_t nodes_of(int64_t graph) const;
  Structure structure(int64_t graph) const;

 private:
  struct Property {
    std::string name = {};
    std::string level = {};  // "node", "edge" or "graph"
    int64_t width = 1;
    std::vector<double> numbers = {};
  };
  void take(NamedArray&& array, std::vector<std::string>& problems);
  void take_positions(NamedArray&& array, std::vector<std::string>& problems);
  void take_edges(NamedArray&& array, std::vector<std::string>& problems);
  void check_offsets(std::vector<int64_t>& offsets, const char* name, int64_t end, std::vector<std::string>& problems);
  void check_rows(std::vector<std::string>& problems) const;

  bool has_positions_ = false, has_edges_ = false;
  std::vector<double> positions_;             // [N, 3]
  std::vector<uint8_t> species_;              // [N]
  std::vector<int32_t> senders_, receivers_;  // [E]
  std::vector<int64_t> first_node_, first_edge_;
  std::vector<Property> properties_;
};

// Returns the arrays of an .npz file. Throws UserError.
std::vector<NamedArray> npz_arrays(const NpzArchive& archive);

// Returns the arrays of an HDF5 file, with the names of their groups: "node/NAME". Scales of dimensions, which netCDF
// writes, are left out. Throws UserError that names the file and the array. Only one thread at a time reads.
std::vector<NamedArray> hdf5_arrays(const std::filesystem::path& path);

}  // namespace terrace::data
