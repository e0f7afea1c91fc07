// Looks at the owner and the mode of a folder: in one that all users share, another user may have made a folder of a
// known name to read or change what is put there.
#include "terrace/checkpoint/own_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "terrace/base/error.h"

namespace terrace::checkpoint {

void check_own_folder(const std::filesystem::path& folder, const char* key) {
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    throw std::system_error(errno, std::generic_category(), "cannot look at " + folder.string());
  }
  std::string what;
  if (!S_ISDIR(found.st_mode)) what = S_ISLNK(found.st_mode) ? "is a symbolic link" : "is no folder";
  if (what.empty() && found.st_uid != ::geteuid()) what = fmt::format("belongs to user {}", found.st_uid);
  if (what.empty() && (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) what = "can be written to by others";
  if (what.empty()) return;
  throw UserError::of(
      "{} = \"{}\": {} {}, and another user could change the checkpoints that pass through it; remove it, or name a "
      "folder of your own",
      key, folder.parent_path().string(), folder.string(), what);
}

void take_own_folder(const std::filesystem::path& folder, const char* key) {
  std::filesystem::create_directories(folder.parent_path());
  if (::mkdir(folder.c_str(), S_IRWXU) == 0) return;
  if (errno != EEXIST) throw std::system_error(errno, std::generic_category(), "cannot create " + folder.string());
  check_own_folder(folder, key);
}

}  // namespace terrace::checkpoint
