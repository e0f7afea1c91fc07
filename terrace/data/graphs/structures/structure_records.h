// Structures as bytes in a file, which a rank writes and the first rank reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "terrace/data/file_parts.h"
#include "terrace/data/graphs/dataset/graph_files.h"

namespace terrace::data {

// Appends a record: its number of bytes, then the structure with all its numbers as this processor has them and its
// units.
void append_structure(const NumberedStructure& structure, std::vector<std::byte>& bytes);

// Reads the records of a range of a file, one after another. Memory is that of one record. Throws UserError where the
// file cannot be read.
class StructureRecords {
 public:
  StructureRecords(const std::filesystem::path& path, const PartRange& range);
  std::optional<NumberedStructure> next();

 private:
  void read(void* to, uint64_t bytes);

  std::filesystem::path path_;
  std::ifstream file_;
  uint64_t left_;
  std::vector<std::byte> record_ = {};
};

}  // namespace terrace::data
