// Reads and appends by a descriptor that lives for one call.
#include "terrace/search/shared_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "terrace/base/files/file.h"

namespace terrace::search {
namespace {

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags) : number_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (is_open()) ::close(number_);
  }
  bool is_open() const { return number_ >= 0; }
  int operator*() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void throw_read_error(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), "cannot read " + path.string());
}

std::string read_at(int descriptor, int64_t offset, size_t bytes, const std::filesystem::path& path) {
  std::string text(bytes, '\0');
  size_t done = 0;
  while (done < bytes) {
    const ssize_t count = ::pread(descriptor, text.data() + done, bytes - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_read_error(path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  text.resize(done);
  return text;
}

}  // namespace

std::string SharedFile::read_new() {
  const Descriptor file(path_, O_RDWR);
  if (!file.is_open() && errno == ENOENT) return "";
  struct stat status {};
  if (!file.is_open() || ::fstat(*file, &status) != 0) throw_read_error(path_);
  if (status.st_size <= known_) return "";
  std::string text = read_at(*file, known_, static_cast<size_t>(status.st_size - known_), path_);
  const size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  known_ += static_cast<int64_t>(text.size());
  if (known_ < status.st_size && ::ftruncate(*file, known_) != 0) throw_write_error(path_);
  return text;
}

std::string SharedFile::beginning(size_t bytes) const {
  const Descriptor file(path_, O_RDONLY);
  if (!file.is_open() && errno == ENOENT) return "";
  if (!file.is_open()) throw_read_error(path_);
  return read_at(*file, 0, bytes, path_);
}

void SharedFile::append(const std::string& lines) {
  const Descriptor file(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (!file.is_open() || ::write(*file, lines.data(), lines.size()) != static_cast<ssize_t>(lines.size())) {
    throw_write_error(path_);
  }
  known_ += static_cast<int64_t>(lines.size());
}

void SharedFile::sync() const {
  const Descriptor file(path_, O_WRONLY);
  if (!file.is_open() || ::fdatasync(*file) != 0) throw_write_error(path_);
}

}  // namespace terrace::search
