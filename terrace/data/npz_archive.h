// Reads arrays of numpy's .npz files: zip archives of .npy files, stored or deflated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"

namespace terrace::data {

// The types of little-endian numbers; boolean is a byte that is 0 or 1.
enum class NpyType { fp32, fp64, boolean, int8, uint8, int16, uint16, int32, uint32, int64, uint64 };

// An array of numbers, row-major.
struct NpyArray {
  std::vector<uint64_t> shape = {};
  NpyType type = NpyType::fp32;
  std::span<const std::byte> bytes = {};  // of the numbers

  uint64_t numbers() const;  // at most 2^56
  // Reads numbers first .. first + values.size() - 1, rounded to the type of the values.
  void read(uint64_t first, std::span<float> values) const;
  void read(uint64_t first, std::span<double> values) const;
};

// Returns the array in the bytes of a .npy file; `name` is used in errors. Throws UserError for other types, for
// Fortran's order, and where numbers are missing.
NpyArray parse_npy(std::span<const std::byte> file, const std::string& name);

class NpzArchive {
 public:
  // Throws UserError for what is no zip archive, or a truncated one.
  explicit NpzArchive(const std::filesystem::path& path);
  // Takes the bytes of an archive, which the caller keeps. Throws UserError for what is no zip archive, or a truncated
  // one.
  NpzArchive(std::span<const std::byte> bytes, std::string name);

  struct Entry {
    std::string name = {};  // without .npy
    uint16_t method = 0;    // 0: stored, 8: deflated
    uint32_t checksum = 0;  // CRC-32 of the bytes
    uint64_t offset = 0;    // of the entry's own header
    uint64_t packed_bytes = 0, bytes = 0;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  // Returns the array of an entry with its shape, without its numbers where they are packed.
  NpyArray header(const Entry& entry) const;
  // Returns the array, whose bytes are in the file or in `unpacked`. Throws UserError where its checksum is wrong.
  NpyArray array(const Entry& entry, std::vector<std::byte>& unpacked) const;

 private:
  std::span<const std::byte> packed(const Entry& entry) const;
  std::vector<std::byte> inflated(const Entry& entry, uint64_t at_most) const;
  std::string name_of(const Entry& entry) const { return name_ + ": " + entry.name; }
  void read_directory();

  MappedFile file_;
  std::span<const std::byte> bytes_;
  std::string name_;
  std::vector<Entry> entries_;
};

}  // namespace terrace::data
