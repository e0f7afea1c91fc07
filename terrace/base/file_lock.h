// A lock on a file that ends with the process, however that ends.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace terrace {

class LockMark;

class FileLock {
 public:
  // Creates the file where it is missing. Throws UserError with `held_message` when another process, or another lock of
  // this one, holds it. Where the file system knows no locks, warns, and locks by a file FILE.owner with the machine,
  // the process and the time of its last sign of life; one of a process that has died, or whose signs have stopped for
  // minutes, is taken over, with a warning too.
  FileLock(const std::filesystem::path& file, const std::string& held_message);
  FileLock(const FileLock&) = delete;
  ~FileLock();

 private:
  int descriptor_ = -1;
  std::unique_ptr<LockMark> mark_;
};

}  // namespace terrace
