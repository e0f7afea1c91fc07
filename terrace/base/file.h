// Files that are either whole or absent: memory-mapped reading, and writing under a temporary name until it is durable.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace terrace {

// A read-only mapping of a whole file. Throws UserError when it cannot be opened. Movable; unmapped on destruction.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // The file will be read here and there: the system then reads the pages that are touched and none around them, which
  // can be megabytes a page otherwise. Ranges of more than a page are to be announced with expect().
  void expect_random_reads() const;
  // These bytes will be read soon; they are fetched at once and not page by page. Costs a system call.
  void expect(size_t offset, size_t size) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A file that appears under its final name only when commit() has synced it; otherwise the temporary one is removed.
// The temporary file stands in the same folder, named ".NAME.PID.partial". Write errors throw std::system_error.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  uint64_t written() const { return written_; }
  const std::filesystem::path& temporary_path() const { return temporary_; }
  // All that was written is on the disk, still under the temporary name. Several files that are to appear together are
  // synced first, so that a full disk is found out while the old ones are whole.
  void sync();
  // Syncs the data, renames, syncs the folder.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::FILE* file_ = nullptr;
  uint64_t written_ = 0;
};

std::string read_text(const std::filesystem::path& path);
void write_text_atomically(const std::filesystem::path& path, std::string_view text);

// Makes renames and new names in the folder durable.
void sync_folder(const std::filesystem::path& folder);

// XXH3, 64 bits, as 16 hexadecimal digits.
std::string checksum(std::span<const std::byte> bytes);

}  // namespace terrace
