// Reads a prepared dataset of graphs, which is mapped into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/data/graphs/dataset/graphs_description.h"
#include "terrace/data/graphs/structures/cell.h"
#include "terrace/data/staging/staged_reader.h"

namespace terrace::data {

// A structure of the dataset; its spans are valid as long as the dataset.
struct GraphView {
  std::span<const uint8_t> species = {};   // [atoms], atomic numbers; 0: no atom
  std::span<const double> positions = {};  // [atoms, 3], angstrom for atoms
  Cell cell = {};
  std::span<const int32_t> receivers = {};  // [edges]; empty where the files gave no edges: find_neighbours()
  std::span<const int32_t> senders = {};
  int32_t source = 0;  // in description().sources
  int64_t number = 0;  // in its source, from 0

  int64_t atoms() const { return static_cast<int64_t>(species.size()); }
};

class GraphsDataset {
 public:
  // Throws UserError that names the file and the problem: missing, of another kind, cut off, or offsets that do not
  // ascend. Checksums are for check(). Whole arrays are read only where no other process found them to be right.
  explicit GraphsDataset(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  const GraphsDescription& description() const { return description_; }
  int64_t structures() const { return description_.structures; }
  int64_t atoms_of(int64_t structure) const;
  int64_t given_edges_of(int64_t structure) const;  // 0 where the files gave no edges
  // Returns a structure, whose spans are valid as long as `at_hand` where that is given, which then reads their
  // numbers.
  GraphView structure(int64_t structure, NumbersAtHand* at_hand = nullptr) const;
  // Returns values [1, atoms or edges of the structure; width]; `property` is its number in the description.
  std::span<const double> values(int64_t property, int64_t structure) const;
  // Returns the structures of a part, ascending: "train", "validation" or "test".
  std::span<const int64_t> part(std::string_view name) const;

  // Returns the file that these arrays are mapped from.
  const MappedFile& file() const { return file_; }
  // Returns the file of the arrays and the description: for found_in().
  std::vector<std::filesystem::path> files() const;
  // Adds where the view of a structure and its values of these properties are in the file; numbers below 0 are no
  // properties.
  void add_ranges(int64_t structure, std::span<const int64_t> properties, FileRanges& ranges) const;
  // Announces that a structure will be read soon.
  void expect(int64_t structure) const;
  // Throws UserError that names the first array whose checksum is wrong. Reads the whole file.
  void check() const;

 private:
  template <typename Number>
  std::span<const Number> numbers(const std::string& name, uint64_t rows, uint64_t width) const;
  std::span<const std::byte> bytes_of_array(const std::string& name, const GraphArray& array) const;
  void check_offsets(std::span<const int64_t> offsets, int64_t end) const;
  void check_places() const;  // of atoms, edges and parts

  std::string prefix_;
  GraphsDescription description_;
  MappedFile file_;
  std::span<const int64_t> first_atom_, first_edge_, number_;
  std::span<const uint8_t> species_, periodic_;
  std::span<const double> positions_, cells_;
  std::span<const int32_t> source_, receivers_, senders_;
  std::vector<std::span<const double>> properties_;
};

}  // namespace terrace::data
