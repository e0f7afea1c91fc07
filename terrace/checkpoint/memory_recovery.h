// Makes a checkpoint of the copies in the memory of nodes, for a run that begins again after the loss of a node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/saving_ranks.h"

namespace terrace::checkpoint {

// A folder of copies that a rank finds on its node.
struct FoundCopy {
  int64_t rank = 0;  // that sees it
  std::string folder;
  int64_t step = 0;
  std::string manifest;                 // checksum of its manifest, which is that of the whole copy
  int64_t files_of_all = 0;             // that the manifest names
  std::vector<std::string> files = {};  // of these, the ones in the folder with their sizes
};

// Which copy to take, and which file of it from which folder.
struct RecoveryPlan {
  int64_t step = 0;
  std::map<std::string, const FoundCopy*> from = {};  // by file; about as many files of each folder as of the others
};

// The newest copy after step `after` of which every file was found; no value where there is none.
std::optional<RecoveryPlan> newest_whole(const std::vector<FoundCopy>& found, int64_t after);

// If the memory of the nodes has a whole copy, by the last start of the run, that is newer than its newest checkpoint,
// makes the checkpoint of that step in the run's folder out of it: every node copies its part of the files, and checks
// their checksums. Returns the step on every rank. Logs on the first rank where copies are not whole or are damaged;
// the run then continues from its newest checkpoint. Throws UserError on all ranks where the disk refuses them: they
// stay as they are. All ranks call it at the same place, while no process trains in the run's folder. `memory` is that
// of MemorySaver::Options, and `host` this machine, all of whose nodes are looked at.
std::optional<int64_t> recover_from_memory(const std::filesystem::path& memory, const std::filesystem::path& run_folder,
                                           const std::string& host, const Retention& retention,
                                           const SavingRanks& ranks);

}  // namespace terrace::checkpoint
