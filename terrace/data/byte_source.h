// Reads the bytes of a file, decompressed if it is compressed with gzip or zstd, in a fixed amount of memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace terrace::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads up to `size` > 0 bytes into `to` and returns their number, 0 only at the end. Throws UserError that names the
  // file where it is truncated or corrupt.
  virtual size_t read(char* to, size_t size) = 0;
  // Bytes of the file on disk read so far.
  virtual uint64_t disk_position() const = 0;
};

// Detects the compression from the file's first bytes, not from its name: gzip (several members and dictzip too), zstd
// (several frames too), or none. Throws UserError for a file that cannot be read, and for xz, bzip2 and zip, which are
// not supported, and for Parquet, which is no stream of bytes.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

// Returns a source that begins with bytes that were read before.
std::unique_ptr<ByteSource> resumed(std::string first, std::unique_ptr<ByteSource> rest);

// Returns the source without the mark of UTF-8, three bytes at the beginning of a file that are no text.
std::unique_ptr<ByteSource> without_byte_order_mark(std::unique_ptr<ByteSource> source);

}  // namespace terrace::data
