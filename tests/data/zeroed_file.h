// A file whose bytes are gone, for tests that something is not read.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/texts_read.h"

namespace terrace::data {

// Replaces all bytes by zeros in place: size, number and time of change stay.
inline void zero_in_place(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY);
  TERRACE_CHECK(descriptor >= 0, "cannot open {}", path.string());
  struct stat before {};
  TERRACE_CHECK(::fstat(descriptor, &before) == 0, "no status");
  const std::vector<char> zeros(static_cast<size_t>(before.st_size), 0);
  TERRACE_CHECK(::pwrite(descriptor, zeros.data(), zeros.size(), 0) == before.st_size, "zeros were not written");
  const std::array<timespec, 2> times = {before.st_atim, before.st_mtim};
  TERRACE_CHECK(::futimens(descriptor, times.data()) == 0, "the time was not set back");
  ::close(descriptor);
}

// The notes that a process which does this work sends to the others.
template <typename Work>
std::string noted_while(const Work& work) {
  const NotedTexts noted;
  work();
  return noted.bytes();
}

// While it exists, what another process has read or found is taken over.
class TakenTexts {
 public:
  explicit TakenTexts(const std::string& bytes) { take_texts(bytes); }
  ~TakenTexts() { take_texts(""); }
  TakenTexts(const TakenTexts&) = delete;
  TakenTexts& operator=(const TakenTexts&) = delete;
};

}  // namespace terrace::data
