// The files of a checkpoint that each rank has written, and the merged records of all ranks.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/saving_ranks.h"

namespace terrace::checkpoint {

// The file that one rank has written for a group.
struct WrittenGroup {
  GroupRecord record;                  // with at most one file
  std::vector<std::string> unwritten;  // tensors that the rank names but holds no element of
};

struct WrittenFiles {
  std::optional<FileRecord> config;            // written by the first rank only
  std::map<std::string, FileRecord> attached;  // by role; written by the first rank only
  std::vector<WrittenGroup> groups;

  std::vector<FileRecord> files() const;
};

// Writes this rank's files into the folder, each of them synced: its parts of the groups, and on member 0 the
// configuration and the attached files. Throws std::system_error where the disk refuses.
WrittenFiles write_files(const std::filesystem::path& folder, const State& state, const SavingRanks& ranks);

// Parts of the groups as text, and the whole of them out of all ranks' texts. Throws UserError where a tensor is not
// there exactly once.
std::string to_text(const std::vector<WrittenGroup>& parts);
std::vector<GroupRecord> merge_groups(const std::vector<std::string>& texts);

}  // namespace terrace::checkpoint
