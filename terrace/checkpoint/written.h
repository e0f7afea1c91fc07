// What the ranks have written of a checkpoint, each for itself and then put together.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/members.h"

namespace terrace::checkpoint {

// One rank's part of a group.
struct WrittenGroup {
  GroupRecord record;                  // with no file or one
  std::vector<std::string> unwritten;  // tensors that it knows and holds no element of
};

struct Written {
  std::optional<FileRecord> config;  // by member 0
  std::optional<FileRecord> tokenizer;
  std::vector<WrittenGroup> groups;

  std::vector<FileRecord> files() const;
};

// Writes this rank's files into the folder, each of them synced: its parts of the groups, and on member 0 the
// configuration and the tokenizer. Throws std::system_error where the disk refuses.
Written write_files(const std::filesystem::path& folder, const State& state, const Members& members);

// Parts of the groups as text, and the whole of them out of all ranks' texts. Throws UserError where a tensor is not
// there exactly once.
std::string to_text(const std::vector<WrittenGroup>& parts);
std::vector<GroupRecord> whole_groups(const std::vector<std::string>& texts);

}  // namespace terrace::checkpoint
