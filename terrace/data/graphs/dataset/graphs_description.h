// Describes what a prepared dataset of graphs holds: the file P.json, which says where the arrays lie in P.bin.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::data {

enum class NumberType { uint8, int32, int64, float64 };  // little-endian
uint64_t bytes_of(NumberType type);
std::string_view numpy_name(NumberType type);  // "<f8"

struct GraphArray {
  NumberType type = NumberType::float64;
  uint64_t offset = 0;               // bytes from the beginning of P.bin, a multiple of 64
  std::vector<uint64_t> sizes = {};  // row-major
  std::string checksum = {};         // terrace::checksum() of its bytes

  uint64_t numbers() const;
  uint64_t bytes() const { return numbers() * bytes_of(type); }
};

enum class GraphLevel { structure, atom, edge };
std::string_view word_of(GraphLevel level);

// Numbers with which every structure, atom or edge is labelled.
struct GraphProperty {
  std::string name = {};  // as in the files; a name is unique at its level
  GraphLevel level = GraphLevel::structure;
  int64_t width = 1;
  // The units as --units gives them, or those that values were converted to (quantities.h); "" where they are not
  // known.
  std::string units = {};
  // The numbers of structures without the property, and of values that are NaN in those that have it. Both are NaN in
  // the array.
  int64_t structures_without = 0, missing_values = 0;
  bool is_complete() const { return structures_without == 0 && missing_values == 0; }
  // The mean and deviation of each column over the training part, in which each structure, atom or edge that has the
  // property counts once; empty where none has.
  std::vector<double> means = {}, deviations = {};
  GraphArray array = {};  // float64 [structures, atoms or edges, width]
};

// Statistics of the training part.
struct GraphStatistics {
  std::map<std::string, int64_t> atoms_of_element = {};  // by symbol
  int64_t structures = 0;
  double mean_atoms = 0;
  int64_t most_atoms = 0;
};

// The parts of a dataset, in this order.
inline constexpr std::array<const char*, 3> graph_splits = {"train", "validation", "test"};

struct GraphsDescription {
  int64_t structures = 0, atoms = 0, edges = 0;
  bool has_edges = false;                 // whether the files gave edges
  std::vector<std::string> sources = {};  // the files
  // The way in which the parts were drawn: "structure", "composition" or "source", the shares and the seed; no shares
  // where all structures are for training.
  std::string split_by = {};
  std::vector<double> shares = {};
  uint64_t seed = 0;
  GraphStatistics statistics = {};
  std::vector<GraphProperty> properties = {};  // sorted by level and name
  // The arrays by name: first_atom int64 [structures + 1], species uint8 [atoms] (atomic numbers; 0: no atom),
  // positions float64 [atoms, 3], cells float64 [structures, 3, 3] (rows a, b, c), periodic uint8 [structures, 3],
  // source int32 [structures] (in `sources`), number int64 [structures] (in its source, from 0), and for each of
  // graph_splits int64 [structures of the part], ascending; where has_edges, first_edge int64 [structures + 1],
  // receivers and senders int32 [edges] (atoms of the structure, from 0).
  std::map<std::string, GraphArray> arrays = {};

  // Returns the number of a property, -1 where there is none.
  int64_t find(std::string_view name, GraphLevel level) const;
  // Returns the text of P.json.
  std::string text() const;
};

// The files of a dataset with the prefix P.
std::filesystem::path graphs_path(const std::string& prefix);              // P.bin
std::filesystem::path graphs_description_path(const std::string& prefix);  // P.json

// Returns whether the file is there and says that it describes graphs.
bool describes_graphs(const std::filesystem::path& path);

// Throws UserError that names the file, and says what to do, where the file is missing or no description of graphs.
GraphsDescription read_graphs_description(const std::filesystem::path& path);

}  // namespace terrace::data
