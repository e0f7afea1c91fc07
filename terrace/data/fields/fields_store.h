// The file P.nc: NetCDF-4 whose arrays lie in it uncompressed and in one piece each, so that other programs open it and
// this one maps it into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "terrace/data/fields/fields_description.h"

namespace terrace::data {

// Makes the file with coordinates, names and units, and space for the arrays, and sets sizes and offsets of the arrays
// in the description. Replaces a file of that name. Throws std::system_error or UserError where it cannot be written.
void make_fields_store(const std::filesystem::path& path, FieldsDescription& description);

// Writes and reads numbers of the arrays of the file, at any place and by any thread. Nothing is mapped, so that the
// memory in use does not grow with the file.
class StoreFile {
 public:
  enum class Access { read, write };
  // Throws std::system_error, as all functions do.
  explicit StoreFile(std::filesystem::path path, Access access = Access::write);
  StoreFile(const StoreFile&) = delete;
  ~StoreFile();
  // `first` is the number of the first value in the array, which is row-major.
  void write(const StoredArray& array, uint64_t first, std::span<const float> values) const;
  void read(const StoredArray& array, uint64_t first, std::span<float> values) const;
  // Makes all that was written durable.
  void sync() const;
  // Returns the terrace::checksum() of all bytes of the array; `look` is called with the number of bytes done, and may
  // throw to stop.
  std::string checksum_of(const StoredArray& array, const std::function<void(uint64_t)>& look) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace terrace::data
