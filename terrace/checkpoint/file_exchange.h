// Sends files to another rank while those of others arrive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/comm/comm.h"

namespace terrace::checkpoint {

struct FileExchange {
  std::vector<std::filesystem::path> files = {};  // that this member sends
  int64_t to = 0;                                 // the member that gets them
  std::vector<int64_t> from = {};                 // the members that name this one as `to`
  std::filesystem::path folder = {};              // where their files are written, under the same names
};

// All members of a group that has more than one call it at the same place. Files are sent in pieces, so that memory for
// one piece of each source is enough, and in any order among the sources: no member waits for a third one. Returns why
// a file could not be read or written, after everything else has arrived. Throws CommError.
std::optional<UserError> exchange_files(comm::Comm& ranks, const FileExchange& exchange);

// The members of a group to which each member's files go so that every node's files are on one more node: those of the
// next node, in the order of `node_of`, which has a number from 0 for the node of each member. Members of a node are
// divided equally among those of the next one. Empty where there is one node.
std::vector<int64_t> receivers_of(const std::vector<int64_t>& node_of);

}  // namespace terrace::checkpoint
