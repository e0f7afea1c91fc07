// Writes event files for TensorBoard: TFRecord frames, each with a protocol-buffer message of type Event.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace terrace::observe {

// CRC-32C (Castagnoli), as in RFC 3720, appendix B.4.
uint32_t crc32c(std::string_view bytes);

// A record with its frame: length (u64) and the masked checksum of those 8 bytes, the record, and its masked checksum;
// all little-endian.
std::string tfrecord(std::string_view record);

struct Scalar {
  std::string tag;  // TensorBoard groups tags by their text before the first '/'
  double value;     // written as fp32
};

class EventFile {
 public:
  // Starts a new file in the folder (created where it is missing), named so that TensorBoard reads it after the
  // existing files. Its first record says that the run continues after `last_step`, so that TensorBoard drops later
  // steps of the existing files. Errors of the file system throw std::system_error.
  EventFile(const std::filesystem::path& folder, int64_t last_step);
  EventFile(EventFile&& other) noexcept : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
  ~EventFile();

  // Written at once, by one system call.
  void write(int64_t step, const std::vector<Scalar>& scalars);
  void sync();

  const std::filesystem::path& path() const { return path_; }

 private:
  void append(const std::string& message);

  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace terrace::observe
