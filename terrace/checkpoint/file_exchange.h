// Sends files to another rank while those of others arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/comm.h"

namespace terrace::checkpoint {

// The contents of a file, and what keeps them in memory (comm::Comm says why).
struct FileMemory {
  std::span<std::byte> bytes;
  comm::Owner owner;
};

struct FileExchange {
  std::map<std::string, FileMemory> files = {};  // that this member sends, by name
  int64_t to = 0;                                // the member that gets them
  std::vector<int64_t> from = {};                // the members that name this one as `to`
  // Returns the memory for a file that arrives, or throws.
  std::function<FileMemory(const std::string& name, size_t bytes)> place = {};
};

// All members of a group that has more than one call it at the same place. Files are sent in pieces, and in any order
// among the sources: no member waits for a third one. A file for which there is no place is received and dropped, and
// the first such failure is returned when everything else has arrived. Throws CommError.
std::optional<UserError> exchange_files(comm::Comm& ranks, const FileExchange& exchange);

// The members of a group to which each member's files go so that every node's files are on one more node: those of the
// next node, in the order of `node_of`, which has a number from 0 for the node of each member. Members of a node are
// divided equally among those of the next one. Empty where there is one node.
std::vector<int64_t> receivers_of(const std::vector<int64_t>& node_of);

}  // namespace terrace::checkpoint
