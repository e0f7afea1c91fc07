// A route: the one or two groups of ranks through which a collective's data pass.
#pragma once

#include <cstdint>

#include "terrace/comm/comm.h"

namespace terrace::parallel {

// A route has one or two groups. With two, an inner group has I members with fast links between them, and an outer
// group has the J ranks with the same member number in their inner groups (so every rank of a node communicates with
// other nodes). The I J ranks exchange a flat buffer of I J equal blocks. Block i J + j belongs to member i of its
// inner group and member j of its outer group, so that both exchanges read and write contiguous blocks. A reduction
// uses the inner group first, which leaves blocks i J to i J + J - 1 on member i; a gather uses the outer group first.
// With one group, block i belongs to member i.
//
// A single group with all ranks in the order of their blocks gives each rank the same block as the two groups.
struct Route {
  Route(comm::Comm& group) : inner(&group) {}
  // Skips a group of one member, for which values would only be encoded twice.
  Route(comm::Comm& inner_group, comm::Comm& outer_group)
      : inner(inner_group.size() > 1 ? &inner_group : &outer_group),
        outer(inner_group.size() > 1 && outer_group.size() > 1 ? &outer_group : nullptr) {}

  // The number of members, and this rank's block.
  int64_t size() const { return inner->size() * outer_size(); }
  int64_t block() const { return inner->member() * outer_size() + (outer != nullptr ? outer->member() : 0); }
  int64_t outer_size() const { return outer != nullptr ? outer->size() : 1; }

  comm::Comm* inner;
  comm::Comm* outer = nullptr;  // none: one hop
};

}  // namespace terrace::parallel
