// A file of lines to which several processes append, on one host or on several that share the file system. Each call
// needs a lock that they all take. The file is opened again each time, so that a network file system gives what others
// wrote before they released the lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace terrace::search {

class SharedFile {
 public:
  explicit SharedFile(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  // The whole lines behind those that were read or appended so far; "" if there is no such file. A last line without
  // its line break is removed from the file: its writer was killed. Errors of the file system throw std::system_error.
  std::string read_new();
  // The first so many bytes, or fewer if the file has fewer.
  std::string beginning(size_t bytes) const;
  // Creates the file where it is missing. To be called after read_new(), and with whole lines. They are kept also if
  // the program is killed; sync() makes them durable on the disk.
  void append(const std::string& lines);
  void sync() const;

 private:
  std::filesystem::path path_;
  int64_t known_ = 0;  // bytes that were read or appended
};

}  // namespace terrace::search
