// Consecutive bytes of a file of the data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "terrace/base/files/file.h"

namespace terrace::data {

struct FileRange {
  const MappedFile* file = nullptr;
  uint64_t offset = 0, bytes = 0;

  bool operator==(const FileRange&) const = default;
};

using FileRanges = std::vector<FileRange>;

// Returns the range that a part of the file's mapping covers. Reads nothing.
template <typename Number>
FileRange range_of(const MappedFile& file, std::span<const Number> mapped) {
  const auto* begin = reinterpret_cast<const std::byte*>(mapped.data());
  return {&file, mapped.empty() ? 0 : static_cast<uint64_t>(begin - file.bytes().data()), mapped.size_bytes()};
}

inline std::vector<uint64_t> file_sizes(const std::vector<const MappedFile*>& files) {
  std::vector<uint64_t> sizes;
  for (const MappedFile* file : files) sizes.push_back(file->bytes().size());
  return sizes;
}

// Adds the range that a part of the file's mapping covers, unless it is empty.
template <typename Number>
void add_range(const MappedFile& file, std::span<const Number> mapped, FileRanges& ranges) {
  if (!mapped.empty()) ranges.push_back(range_of(file, mapped));
}

}  // namespace terrace::data
