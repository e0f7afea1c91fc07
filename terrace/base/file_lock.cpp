// flock on an open file, or a file in its place.
#include "terrace/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/lock_mark.h"
#include "terrace/base/log.h"

namespace terrace {
namespace {

// 0, or the number of the error.
int take_flock(int descriptor) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& file, const std::string& held_message)
    : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "cannot create " + file.string());
  const int error = take_flock(descriptor_);
  if (error == 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
  if (error == EWOULDBLOCK) throw UserError(held_message);
  std::filesystem::path mark = file;
  mark += ".owner";
  static std::atomic<bool> said = false;  // savers lock each time
  if (!said.exchange(true))
    log_warning("the file system of {} has no locks ({}); {} is a lock in their place", file.string(),
                std::strerror(error), mark.string());
  mark_ = std::make_unique<LockMark>(mark, held_message);
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace terrace
