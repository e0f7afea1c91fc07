// The files of a checkpoint that each rank has written, and the merged records of all ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/safetensors.h"
#include "terrace/checkpoint/saving_ranks.h"

namespace terrace::checkpoint {

// The file that one rank has written for a collection.
struct WrittenCollection {
  CollectionRecord record;             // with at most one file
  std::vector<std::string> unwritten;  // tensors that the rank names but holds no element of
};

struct WrittenFiles {
  std::optional<FileRecord> config;            // written by the first rank only
  std::map<std::string, FileRecord> attached;  // by role; written by the first rank only
  std::vector<WrittenCollection> collections;

  std::vector<FileRecord> files() const;
  void each(const std::function<void(FileRecord&)>& take);
};

// Takes the files that a rank writes.
class FileSink {
 public:
  virtual ~FileSink() = default;
  virtual FileRecord write(const std::string& name, std::span<const std::byte> bytes) = 0;
  virtual FileRecord write(const std::string& name, const NamedValues& tensors,
                           const std::map<std::string, std::string>& metadata) = 0;
};

// Writes this rank's files: its parts of the collections, and on member 0 the configuration and the attached files.
// Throws what the sink throws.
WrittenFiles write_files(FileSink& sink, const State& state, const SavingRanks& ranks);
// Writes them into the folder, each of them synced. Throws std::system_error where the disk refuses.
WrittenFiles write_files(const std::filesystem::path& folder, const State& state, const SavingRanks& ranks);

// Copies a file to another path, durable on return. Returns the checksum of the copy as it is read again. Throws
// std::system_error where the disk refuses.
std::string copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Parts of the collections as text, and the whole of them out of all ranks' texts. Throws UserError where a tensor is
// not there exactly once.
std::string to_text(const std::vector<WrittenCollection>& parts);
std::vector<CollectionRecord> merge_collections(const std::vector<std::string>& texts);

}  // namespace terrace::checkpoint
