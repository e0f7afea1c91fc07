// A lock on a file that the system releases when the process ends in any way.
#pragma once

#include <filesystem>
#include <string>

namespace terrace {

class FileLock {
 public:
  // Creates the file where it is missing. Throws UserError with `held_message` when another process, or another lock of
  // this one, holds it; a file system without locks goes without.
  FileLock(const std::filesystem::path& file, const std::string& held_message);
  FileLock(const FileLock&) = delete;
  ~FileLock();

 private:
  int descriptor_ = -1;
};

}  // namespace terrace
