// Writes into a node-local folder and copies out of it.
#include "terrace/checkpoint/staging.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/make_checkpoint.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

void copy_checked(const fs::path& from, const fs::path& to, const FileRecord& record) {
  {
    const MappedFile source(from / record.name);
    AtomicFile file(to / record.name);
    if (!source.bytes().empty()) file.write(source.bytes().data(), source.bytes().size());
    file.commit();
  }
  const std::string found = checksum(MappedFile(to / record.name).bytes());
  if (found == record.checksum) return;
  throw UserError(
      fmt::format("checkpoint {} was not saved: {} changed on its way from {}: its checksum is {} and should "
                  "be {}. Earlier checkpoints are untouched. Leave checkpoint.staging out, or name another "
                  "disk",
                  to.string(), record.name, from.string(), found, record.checksum),
      ExitCode::failure);
}

// In a folder that all users share, another user may have made one with this name to read or change the staged files.
void refuse_foreign(const fs::path& staged) {
  struct stat found {};
  if (::lstat(staged.c_str(), &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    throw std::system_error(errno, std::generic_category(), "cannot look at " + staged.string());
  }
  std::string what;
  if (!S_ISDIR(found.st_mode)) what = S_ISLNK(found.st_mode) ? "is a symbolic link" : "is no folder";
  if (what.empty() && found.st_uid != ::geteuid()) what = fmt::format("belongs to user {}", found.st_uid);
  if (what.empty() && (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) what = "can be written to by others";
  if (what.empty()) return;
  throw UserError::of(
      "checkpoint.staging = \"{}\": {} {}, and another user could change the checkpoints that pass through it; remove "
      "it, or name a folder of your own",
      staged.parent_path().string(), staged.string(), what);
}

// Makes the folder or checks that it is this user's own.
void take_folder(const fs::path& staged) {
  fs::create_directories(staged.parent_path());
  if (::mkdir(staged.c_str(), S_IRWXU) == 0) return;
  if (errno != EEXIST) throw std::system_error(errno, std::generic_category(), "cannot create " + staged.string());
  refuse_foreign(staged);
}

// Ranks of one machine share the staging folder, so each has its own subfolder.
fs::path own_folder(const fs::path& staged, const SavingRanks& ranks) {
  return ranks.is_single() ? staged : staged / fmt::format("rank_{:04}", ranks.rank());
}

}  // namespace

fs::path staging_of(const fs::path& staging, const fs::path& run_folder) {
  const std::string name = fs::weakly_canonical(fs::absolute(run_folder)).string();
  return staging / ("terrace_" + checksum(std::as_bytes(std::span(name))));
}

void check_staging(const fs::path& staged) { refuse_foreign(staged); }

void clear_staging(const fs::path& staged, const SavingRanks& ranks) {
  std::optional<UserError> refusal;
  try {
    take_folder(staged);
  } catch (const UserError& error) {
    refusal = error;
  } catch (const std::system_error& error) {
    log_warning("{}", error.what());  // the first save reports what follows from it
  }
  ranks.throw_if_any_failed(refusal);
  std::error_code error;
  // The ranks of one machine remove the same names, so some are gone when a rank reaches them. The folder itself stays.
  do {
    error.clear();
    for (fs::directory_iterator entry(staged, error), end; !error && entry != end; entry.increment(error)) {
      fs::remove_all(entry->path(), error);
      if (error) break;
    }
  } while (error == std::errc::no_such_file_or_directory && fs::exists(staged));
  if (error && fs::exists(staged)) {
    log_warning("left-overs in {} could not be removed: {}", staged.string(), error.message());
  }
  ranks.wait_for_all();
}

StagedFiles::StagedFiles(const fs::path& staged, const State& state, const SavingRanks& ranks)
    : path_(own_folder(staged, ranks) / step_name(state.step)), step_(state.step), trainer_(state.trainer) {
  take_folder(staged);  // makes the folder again if it was removed
  fs::remove_all(path_);
  fs::create_directories(path_);
  try {
    written_ = write_files(path_, state, ranks);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    throw;
  }
}

StagedFiles::StagedFiles(StagedFiles&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      step_(other.step_),
      trainer_(std::move(other.trainer_)),
      written_(std::move(other.written_)) {}

StagedFiles::~StagedFiles() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

fs::path StagedFiles::copy_out(const fs::path& folder, const Retention& retention, const SavingRanks& ranks) const {
  int64_t needed = 0;
  for (const FileRecord& file : written_.files()) needed += static_cast<int64_t>(file.bytes);
  return make_checkpoint({.folder = folder,
                          .step = step_,
                          .trainer = trainer_,
                          .needed_bytes = needed,
                          .retention = retention,
                          .ranks = ranks},
                         [&](const fs::path& partial) {
                           for (const FileRecord& file : written_.files()) copy_checked(path_, partial, file);
                           return written_;
                         });
}

}  // namespace terrace::checkpoint
