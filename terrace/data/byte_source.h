// The bytes of a file, unpacked where it is packed with gzip or zstd, in a fixed amount of memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

namespace terrace::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills `to` with up to `size` > 0 bytes; 0 only at the end. Throws UserError naming the file where it is truncated
  // or corrupt.
  virtual size_t read(char* to, size_t size) = 0;
  // Bytes of the file on disk read so far.
  virtual uint64_t disk_position() const = 0;
};

// Tells the packing by the file's first bytes, whatever its name: gzip (several members and dictzip too), zstd (several
// frames too), or plain. Throws UserError for a file that cannot be read, and for xz, bzip2 and zip, which are not
// read.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

}  // namespace terrace::data
