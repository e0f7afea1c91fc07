// Broadcasts what identifies the file, and its text.
#include "cli/training/text_of_first.h"

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cli/reporting_process.h"
#include "terrace/base/error.h"
#include "terrace/base/file.h"

namespace terrace::cli {
namespace {

// Size, time of change and number of a file; zeros where there is none. The number of its device is left out, since
// machines number the devices of a shared file system differently.
using FileIdentity = std::array<int64_t, 4>;

FileIdentity identity_of(const std::filesystem::path& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, static_cast<int64_t>(status.st_ino)};
}

}  // namespace

std::optional<std::string> text_of_first(const std::shared_ptr<comm::MpiLibrary>& library,
                                         const std::filesystem::path& path) {
  const FileIdentity own = identity_of(path);
  std::string bytes;
  if (is_reporting_process() && own != FileIdentity{}) {
    bytes.assign(reinterpret_cast<const char*>(own.data()), sizeof own);
    try {
      bytes += read_text(path);
    } catch (const UserError&) {
      bytes.clear();  // each process then says so of its own file
    }
  }
  bytes = comm::broadcast_bytes(library, std::move(bytes));
  if (own == FileIdentity{} || bytes.size() < sizeof own) return std::nullopt;
  if (std::memcmp(bytes.data(), own.data(), sizeof own) != 0) return std::nullopt;
  return bytes.substr(sizeof own);
}

}  // namespace terrace::cli
