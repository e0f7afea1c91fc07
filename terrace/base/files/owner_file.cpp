// Creates the file exclusively, and finds out whether the process that created it is alive.
#include "terrace/base/files/owner_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/system/process_identity.h"
#include "terrace/base/terminal/log.h"

namespace terrace {
namespace {

namespace fs = std::filesystem;

constexpr auto heartbeat_interval = std::chrono::seconds(15);
constexpr double dead_after_seconds = 180;  // without a heartbeat, by the file system's clock

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<time_t> modification_time(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? std::optional(status.st_mtim.tv_sec) : std::nullopt;
}

// Both times are taken from the file system's clock, which may be another machine's. 0 for a file that was just
// removed.
double seconds_since_heartbeat(const fs::path& path) {
  const fs::path beside = temporary_path(path);
  std::ofstream(beside) << "\n";
  const std::optional<time_t> now = modification_time(beside), then = modification_time(path);
  std::error_code ignored;
  fs::remove(beside, ignored);
  return now && then ? static_cast<double>(*now - *then) : 0;
}

// "" while the heartbeat goes on.
std::string death_by_heartbeat(const fs::path& path) {
  const double seconds = seconds_since_heartbeat(path);
  return seconds > dead_after_seconds ? fmt::format("has shown no heartbeat for {:.0f} s", seconds) : "";
}

// Why the holder of a lock is considered dead; empty where it is alive. A process of this host keeps its lock while it
// exists, also while it is suspended.
std::string reason_to_take_over(const fs::path& path, const std::optional<ProcessIdentity>& holder) {
  if (holder && holder->is_of_this_host()) return holder->death();
  return death_by_heartbeat(path);
}

}  // namespace

std::string death_of_owner(const fs::path& path) {
  if (!fs::exists(path)) return "has left";
  const std::optional<ProcessIdentity> holder = parse_process_identity(text_of(path));
  if (holder && !holder->death().empty()) return holder->death();
  return death_by_heartbeat(path);
}

OwnerFile::OwnerFile(fs::path path, const std::string& held_message)
    : path_(std::move(path)), own_(identity_of_this_process().text() + "\n") {
  if (!create()) {
    take_over_from_dead_holder(held_message);
    if (!create()) throw UserError(held_message);
  }
  // Signals must reach the program's other threads and not this one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  heartbeat_ = std::thread([this] { renew(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

OwnerFile::~OwnerFile() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  heartbeat_.join();
  std::error_code ignored;
  if (text_of(path_) == own_) fs::remove(path_, ignored);
}

bool OwnerFile::create() const {
  const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0 && errno == EEXIST) return false;
  const bool written = descriptor >= 0 && ::write(descriptor, own_.data(), own_.size()) == std::ssize(own_);
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (written) return true;
  if (descriptor >= 0) ::unlink(path_.c_str());
  throw std::system_error(error, std::generic_category(), "cannot create " + path_.string());
}

void OwnerFile::take_over_from_dead_holder(const std::string& held_message) const {
  if (!fs::exists(path_)) return;  // its holder has just released the lock
  const std::string text = text_of(path_);
  const std::optional<ProcessIdentity> holder = parse_process_identity(text);
  const std::string reason = reason_to_take_over(path_, holder);
  const std::string who =
      holder ? fmt::format("process {} on {}", holder->process_id, holder->host) : "an unknown process";
  if (reason.empty()) throw UserError::of("{} ({} holds {})", held_message, who, path_.string());
  // The file is moved away in one operation. Another process may have done so before and hold the lock by now.
  const fs::path aside = temporary_path(path_);
  if (::rename(path_.c_str(), aside.c_str()) != 0) return;
  const bool another = text_of(aside) != text;
  if (another && ::link(aside.c_str(), path_.c_str()) != 0 && errno != EEXIST) {
    log_warning("{} could not be restored for its owner", path_.string());
  }
  ::unlink(aside.c_str());
  if (another) throw UserError(held_message);
  log_warning("{}, which holds {}, {}: its lock is taken over", who, path_.string(), reason);
}

void OwnerFile::renew() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, heartbeat_interval, [this] { return stops_; })) {
    if (::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0) == 0) continue;
    log_warning("the heartbeat of {} could not be updated: {}", path_.string(),
                std::error_code(errno, std::generic_category()).message());
  }
}

}  // namespace terrace
