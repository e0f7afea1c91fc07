// flock on an open file.
#include "terrace/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "terrace/base/error.h"

namespace terrace {

FileLock::FileLock(const std::filesystem::path& file, const std::string& held_message)
    : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "cannot create " + file.string());
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw UserError(held_message);
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace terrace
