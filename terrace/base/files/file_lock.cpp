// Locks by flock, or by an owner file where the file system has no locks.
#include "terrace/base/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "terrace/base/error.h"
#include "terrace/base/files/owner_file.h"
#include "terrace/base/terminal/log.h"

namespace terrace {
namespace {

using Clock = std::chrono::steady_clock;

// Returns 0 or the error number.
int take_flock(int descriptor) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, const std::string& held_message, std::chrono::seconds patience) {
  constexpr auto most = std::chrono::milliseconds(50);
  const Clock::time_point last = Clock::now() + patience;
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, most)) {
    try {
      take(file, held_message);
      return;
    } catch (const UserError&) {
      if (Clock::now() >= last) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

void FileLock::take(const std::filesystem::path& file, const std::string& held_message) {
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "cannot create " + file.string());
  const int error = take_flock(descriptor_);
  if (error == 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
  if (error == EWOULDBLOCK) throw UserError(held_message);
  std::filesystem::path owner = file;
  owner += ".owner";
  static std::atomic<bool> said = false;  // every save takes the lock, and one warning is enough
  if (!said.exchange(true))
    log_warning("the file system of {} has no locks ({}); the file {} is used as a lock instead", file.string(),
                std::strerror(error), owner.string());
  owner_file_ = std::make_unique<OwnerFile>(owner, held_message);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace terrace
