// Says over which groups of a dragonfly network a job's nodes lie, and which groups of ranks cross them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/machine/machine.h"
#include "terrace/mesh/mesh.h"

namespace terrace::plan {

struct SpannedGroups {
  int64_t groups = 1;                                 // of the machine's tier "group"
  int64_t nodes_of_group = 1;                         // nodes of the job in each of them, the last one perhaps excepted
  std::vector<std::string> across = {}, inside = {};  // axes of the mesh whose groups of ranks cross them, and do not
};

// Ranks fill the groups in order. Nothing where the machine has no tier "group", or the job lies in one.
std::optional<SpannedGroups> spanned_groups(const mesh::Mesh& mesh, const machine::Machine& machine);

// "the nodes lie in 4 groups of 32: groups of data cross them, of tensor and pipeline do not".
std::string text_of(const SpannedGroups& spanned);
// {"groups", "nodes_of_group", "across", "inside"}.
Json json_of(const SpannedGroups& spanned);

}  // namespace terrace::plan
