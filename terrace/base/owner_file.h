// A file whose being there is a lock, for file systems that have none: it says who holds it, and its time of change
// that the holder lives.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace terrace {

class LockMark {
 public:
  // Throws UserError with `held_message`, and who holds it, where a living process does.
  LockMark(std::filesystem::path path, const std::string& held_message);
  LockMark(const LockMark&) = delete;
  ~LockMark();

 private:
  bool create() const;
  void take_over_a_dead_one(const std::string& held_message) const;
  void show_life();

  const std::filesystem::path path_;
  const std::string own_;  // its text
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread heart_;
};

}  // namespace terrace
