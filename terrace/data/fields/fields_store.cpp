// Reads and writes the arrays of a dataset by POSIX calls.
#include "terrace/data/fields/fields_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "terrace/base/files/file.h"

namespace terrace::data {

static_assert(std::endian::native == std::endian::little, "arrays are stored as the processor has them");

StoreFile::StoreFile(std::filesystem::path path, Access access) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), (access == Access::write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (descriptor_ >= 0) return;
  if (access == Access::write) throw_write_error(path_);
  throw std::system_error(errno, std::generic_category(), "cannot read " + path_.string());
}

StoreFile::~StoreFile() { ::close(descriptor_); }

void StoreFile::write(const StoredArray& array, uint64_t first, std::span<const float> values) const {
  std::span<const std::byte> bytes = std::as_bytes(values);
  uint64_t at = array.offset + first * sizeof(float);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0) throw_write_error(path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
    at += static_cast<uint64_t>(written);
  }
}

void StoreFile::read(const StoredArray& array, uint64_t first, std::span<float> values) const {
  std::span<std::byte> bytes = std::as_writable_bytes(values);
  uint64_t at = array.offset + first * sizeof(float);
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (got == 0) errno = EIO;
    if (got <= 0) throw std::system_error(errno, std::generic_category(), "cannot read " + path_.string());
    bytes = bytes.subspan(static_cast<size_t>(got));
    at += static_cast<uint64_t>(got);
  }
}

void StoreFile::sync() const {
  if (::fsync(descriptor_) != 0) throw_write_error(path_);
}

std::string StoreFile::checksum_of(const StoredArray& array, const std::function<void(uint64_t)>& look) const {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  const uint64_t numbers = array.sizes.empty() ? 0 : array.numbers();
  std::vector<float> values;
  for (uint64_t done = 0; done < numbers; done += values.size()) {
    look(done * sizeof(float));
    values.resize(std::min<uint64_t>(numbers - done, 1 << 20));
    read(array, done, values);
    XXH3_64bits_update(state.get(), values.data(), values.size() * sizeof(float));
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace terrace::data
