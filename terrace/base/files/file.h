// Memory-mapped reading, and atomic writing: a file gets its final name only when its contents are durable.
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

  // Advises the system of random reads: it then reads only the pages that are touched, where it could otherwise read
  // megabytes around each. Announce ranges of more than a page with expect().
  void expect_random_reads() const;
  // Announces that these bytes will be read soon, so that they are fetched at once and not page by page. Costs a system
  // call.
  void expect(size_t offset, size_t size) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Throws std::system_error of errno, with "cannot write PATH".
[[noreturn]] void throw_write_error(const std::filesystem::path& path);

// A file that gets its final name in commit(), after it is synced. Without commit() the destructor removes the
// temporary file, which has a temporary_path() in the same folder. Write errors throw std::system_error.
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
  // Makes all that was written durable under the temporary name. Sync several files before the first commit() where
  // they must appear together, so that a full disk is detected while the old files are whole.
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

// Makes renames and new files in the folder durable.
void sync_folder(const std::filesystem::path& folder);

// XXH3, 64 bits, as 16 hexadecimal digits.
std::string checksum(std::span<const std::byte> bytes);

}  // namespace terrace
