// Writes structures one after another into a dataset of graphs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/data/graphs/dataset/array_file.h"
#include "terrace/data/graphs/dataset/graphs_description.h"
#include "terrace/data/graphs/structures/structure.h"

namespace terrace::data {

enum class SplitBy { structure, composition, source, geometry };

struct GraphSplit {
  std::array<double, 3> shares = {1, 0, 0};
  uint64_t seed = 1;
  SplitBy by = SplitBy::structure;  // equal structures stay together, by geometry also those with other properties
};

// Memory is about 50 bytes a structure; the numbers are on disk.
class GraphsWriter {
 public:
  // `folder` is that of the result. Throws std::system_error where it cannot be written, as all functions do.
  GraphsWriter(std::filesystem::path folder, GraphSplit split);

  // Adds a structure without problems. Where it does not fit those before it, returns a sentence and does not write it:
  // it has edges where the others have none, or the other way.
  std::string add(const Structure& structure, int32_t source, int64_t number);
  int64_t structures() const { return static_cast<int64_t>(groups_.size()); }

  // Returns a sentence for each property that differs in width, which the dataset cannot have, and for each of which
  // structures or values are missing.
  std::vector<std::string> remarks() const;

  // Draws the parts, computes the statistics and writes all arrays. Throws UserError where a part would be empty.
  // `look` is called with the bytes written, and may throw to stop.
  GraphsDescription finish(AtomicFile& file, std::vector<std::string> sources,
                           const std::map<std::string, std::string>& units, const std::function<void(uint64_t)>& look);
  uint64_t bytes() const;                            // bytes of all arrays
  std::vector<std::string> property_names() const;   // that the dataset will have
  bool all_have(const std::string& property) const;  // at one level, with one number of columns

 private:
  using Key = std::pair<GraphLevel, std::string>;
  struct Column {
    ArrayFile file;
    int64_t width = 1;
    int64_t structures = 0;      // that have the property
    int64_t missing_values = 0;  // NaN, in these
    bool is_uniform = true;      // the width is the same everywhere, or the property is left out
  };
  // Adds properties of a structure with so many rows at this level, behind `rows_before` rows of other structures.
  void add_properties(const Properties& properties, GraphLevel level, int64_t rows_before, int64_t rows);
  uint64_t group_of(const Structure& structure, int32_t source) const;
  void compute_moments(Column& column, GraphProperty& property) const;
  void count_elements(GraphStatistics& statistics);
  void divide(GraphsDescription& description, AtomicFile& file, const std::function<void(uint64_t)>& look);

  std::filesystem::path folder_;
  GraphSplit split_;
  bool has_edges_ = false;
  std::vector<int64_t> first_atom_ = {0}, first_edge_ = {0};
  std::vector<uint64_t> groups_;
  std::vector<uint8_t> parts_;  // of structures, once they are divided
  std::map<std::string, ArrayFile> arrays_;
  std::map<Key, Column> columns_;
};

}  // namespace terrace::data
