// Checkpoints on their way: written into a node-local folder, which is quick, then copied into the run's, which may be
// slow. A checkpoint has its final name only when it is whole there.
#pragma once

#include <cstdint>
#include <filesystem>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/members.h"
#include "terrace/checkpoint/written.h"

namespace terrace::checkpoint {

// The folder inside `staging` that belongs to one run's folder, so that runs of one machine can share `staging`.
std::filesystem::path staging_of(const std::filesystem::path& staging, const std::filesystem::path& run_folder);

// Makes the folder, for this user alone, and removes what interrupted runs left there, on every machine, before any
// member stages anything. Called by all members. Throws UserError on all where it is another user's, a symbolic link,
// or open to others.
void clear_staging(const std::filesystem::path& staged, const Members& members);

// One rank's files of a checkpoint in a folder of its own, which goes with this object.
class Staged {
 public:
  // Writes them into `staged`. Throws std::system_error where the disk refuses; nothing is left then. Makes no calls of
  // the members' Comm.
  Staged(const std::filesystem::path& staged, const State& state, const Members& members);
  Staged(Staged&& other) noexcept;
  ~Staged();

  const std::filesystem::path& path() const { return path_; }

  // Makes a checkpoint in `folder` out of what all members have staged, as save() does out of states. Every file is
  // compared with its checksum on the way.
  std::filesystem::path copy_out(const std::filesystem::path& folder, const Retention& retention,
                                 const Members& members) const;

 private:
  std::filesystem::path path_;
  int64_t step_;
  Json trainer_;
  Written written_;
};

}  // namespace terrace::checkpoint
