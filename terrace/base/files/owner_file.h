// A file whose existence is a lock, for file systems without locks. It names the process that holds it; its
// modification time is a heartbeat of that process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace terrace {

// Why the process that made the owner file at `path` is considered dead, such as "has died"; "" while it is alive. It
// is dead when its heartbeat stopped minutes ago, and on this host also as soon as it is gone. A missing file has no
// owner.
std::string death_of_owner(const std::filesystem::path& path);

class OwnerFile {
 public:
  // Throws UserError with `held_message` and the holder where a live process holds the lock.
  OwnerFile(std::filesystem::path path, const std::string& held_message);
  OwnerFile(const OwnerFile&) = delete;
  ~OwnerFile();

 private:
  bool create() const;
  void take_over_from_dead_holder(const std::string& held_message) const;
  void renew();

  const std::filesystem::path path_;
  const std::string own_;  // the text of the file
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::thread heartbeat_;
};

}  // namespace terrace
