// Staging: a checkpoint is first written into a fast node-local folder and then copied into the run's folder, which may
// be slow. It gets its final name only when it is whole in the run's folder.
#pragma once

#include <cstdint>
#include <filesystem>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/saving_ranks.h"
#include "terrace/checkpoint/written_files.h"

namespace terrace::checkpoint {

// The subfolder of `staging` for one run's folder, so that the runs of a machine can share `staging`.
std::filesystem::path staging_of(const std::filesystem::path& staging, const std::filesystem::path& run_folder);

// Makes the folder on every machine, for this user alone, and removes the left-overs of interrupted runs before any
// rank stages files. All ranks call it. Throws UserError on all of them where the folder belongs to another user, is a
// symbolic link, or can be written to by others.
void clear_staging(const std::filesystem::path& staged, const SavingRanks& ranks);

// Throws the UserError that clear_staging() would throw where the folder exists, and makes nothing.
void check_staging(const std::filesystem::path& staged);

// One rank's files of a checkpoint in a folder of their own, which the destructor removes.
class StagedFiles {
 public:
  // Writes them into `staged`. Throws std::system_error where the disk refuses; nothing is left then. Makes no calls of
  // the ranks' Comm.
  StagedFiles(const std::filesystem::path& staged, const State& state, const SavingRanks& ranks);
  StagedFiles(StagedFiles&& other) noexcept;
  ~StagedFiles();

  const std::filesystem::path& path() const { return path_; }

  // Makes a checkpoint in `folder` from the files that all ranks have staged, as save() does from states. The checksum
  // of every copy is checked.
  std::filesystem::path copy_out(const std::filesystem::path& folder, const Retention& retention,
                                 const SavingRanks& ranks) const;

 private:
  std::filesystem::path path_;
  int64_t step_;
  Json trainer_;
  WrittenFiles written_;
};

}  // namespace terrace::checkpoint
