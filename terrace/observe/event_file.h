// Event files as TensorBoard reads them: TFRecord frames, each with a protocol-buffer message of type Event.
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
  std::string tag;  // TensorBoard groups by what stands before the first '/'
  double value;     // written as fp32
};

class EventFile {
 public:
  // Starts a file of its own in the folder (made where it is missing), named so that TensorBoard reads it after those
  // that are there, and says in it that the run goes on after `last_step`: what the others hold of later steps no
  // longer counts. Errors of the file system throw std::system_error.
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
