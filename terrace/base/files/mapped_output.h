// A file of a file system in memory that is written through a mapping.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace terrace {

// A new file of a fixed size, mapped for writing. Its memory is taken at once, so that a full file system is an error
// here and no signal later. Unmapped on destruction, and the file stays. Its bytes need no sync where the file
// system is in memory.
class MappedOutput {
 public:
  // A file of this name is removed first. Throws std::system_error.
  MappedOutput(const std::filesystem::path& path, size_t bytes);
  MappedOutput(const MappedOutput&) = delete;
  ~MappedOutput();

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace terrace
