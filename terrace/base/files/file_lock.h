// A lock on a file, which is released when the process ends in any way.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace terrace {

class OwnerFile;

class FileLock {
 public:
  // Creates the file where it is missing. Throws UserError with `held_message` when another process, or another lock of
  // this process, holds it. Where the file system has no locks, it warns and uses an owner file FILE.owner instead,
  // which names the machine and the process; its modification time is a heartbeat. An owner file of a process that has
  // died, or whose heartbeat stopped minutes ago, is taken over with a warning.
  // A lock that is held is waited for, for as long as `patience` says.
  FileLock(const std::filesystem::path& file, const std::string& held_message, std::chrono::seconds patience = {});
  FileLock(const FileLock&) = delete;
  ~FileLock();

 private:
  void take(const std::filesystem::path& file, const std::string& held_message);

  int descriptor_ = -1;
  std::unique_ptr<OwnerFile> owner_file_;
};

}  // namespace terrace
