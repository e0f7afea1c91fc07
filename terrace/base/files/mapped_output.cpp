// Allocates a file's memory and maps it.
#include "terrace/base/files/mapped_output.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "terrace/base/files/file.h"

namespace terrace {

MappedOutput::MappedOutput(const std::filesystem::path& path, size_t bytes) : size_(bytes) {
  std::filesystem::remove(path);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) throw_write_error(path);
  // posix_fallocate() returns its error.
  int error = bytes == 0 ? 0 : ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (error == 0 && bytes > 0) {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
      error = errno;
    } else {
      data_ = static_cast<std::byte*>(address);
    }
  }
  ::close(descriptor);
  if (error == 0) return;
  ::unlink(path.c_str());
  errno = error;
  throw_write_error(path);
}

MappedOutput::~MappedOutput() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace terrace
