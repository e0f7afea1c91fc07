// Writes arrays to unnamed files and copies them into one.
#include "terrace/data/graphs/dataset/array_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

constexpr size_t copy_bytes = size_t{1} << 20;
constexpr uint64_t array_alignment = 64;

std::FILE* open_unnamed_array(const std::filesystem::path& folder) {
  std::string name = (folder / ".array.XXXXXX").string();
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) throw_write_error(folder);
  ::unlink(name.c_str());
  std::FILE* file = ::fdopen(descriptor, "w+b");
  if (file == nullptr) {
    ::close(descriptor);
    throw_write_error(folder);
  }
  return file;
}

}  // namespace

ArrayFile::ArrayFile(const std::filesystem::path& folder, NumberType type)
    : folder_(folder), type_(type), file_(open_unnamed_array(folder)) {}

void ArrayFile::append_bytes(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) throw_write_error(folder_);
  bytes_ += bytes.size();
}

void ArrayFile::read(const std::function<void(std::span<const std::byte>)>& take) {
  if (std::fflush(file_.get()) != 0) throw_write_error(folder_);
  std::vector<std::byte> block;
  for (uint64_t done = 0; done < bytes_; done += block.size()) {
    block.resize(std::min<uint64_t>(copy_bytes, bytes_ - done));
    size_t filled = 0;
    while (filled < block.size()) {
      const ssize_t got = ::pread(::fileno(file_.get()), block.data() + filled, block.size() - filled,
                                  static_cast<off_t>(done + filled));
      if (got == 0) errno = EIO;
      if (got <= 0)
        throw std::system_error(errno, std::generic_category(), "cannot read back from " + folder_.string());
      filled += static_cast<size_t>(got);
    }
    take(block);
  }
}

GraphArray ArrayFile::copy_to(AtomicFile& file, std::vector<uint64_t> sizes,
                              const std::function<void(uint64_t)>& look) {
  static constexpr std::array<char, array_alignment> zeros = {};
  const uint64_t beyond = file.written() % array_alignment;
  if (beyond > 0) file.write(zeros.data(), array_alignment - beyond);
  GraphArray array{.type = type_, .offset = file.written(), .sizes = std::move(sizes)};
  TERRACE_CHECK(array.numbers() == numbers(), "{} numbers in an array of {}", numbers(), array.numbers());
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  read([&](std::span<const std::byte> block) {
    look(file.written());
    XXH3_64bits_update(state.get(), block.data(), block.size());
    file.write(block.data(), block.size());
  });
  array.checksum = fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
  return array;
}

}  // namespace terrace::data
