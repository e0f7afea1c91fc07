// A place for one copy of the states in the memory of a node, as one rank sees it: the files that it writes and those
// that it receives. Files stay mapped, and a later copy is written into the same memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "terrace/base/files/mapped_output.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/file_exchange.h"
#include "terrace/checkpoint/written_files.h"

namespace terrace::checkpoint {

class MemoryPlace {
 public:
  // Writes this rank's files into the folder, which holds those of the last call if there was one; their checksums are
  // not known yet. Tensors of GPUs are copied by way of the CPU. Throws std::system_error where there is no room.
  WrittenFiles write(const std::filesystem::path& folder, const State& state, const SavingRanks& ranks);
  // Memory for a file that another rank sends. Throws UserError for a name that is none, and std::system_error.
  FileMemory receive(const std::filesystem::path& folder, const std::string& name, size_t bytes);

  // Adds the checksums of what write() has written, and returns the memory of the files by name.
  std::map<std::string, FileMemory> with_checksums(WrittenFiles& files) const;
  // Forgets the files, whose memory is free once they are removed.
  void clear() { files_.clear(); }

 private:
  class Sink;
  FileMemory file(const std::filesystem::path& folder, const std::string& name, size_t bytes);

  std::map<std::string, std::shared_ptr<MappedOutput>> files_;  // by name
};

}  // namespace terrace::checkpoint
