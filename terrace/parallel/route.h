// The groups of ranks that the data of a movement pass through.
#pragma once

#include <cstdint>

#include "terrace/comm/comm.h"

namespace terrace::parallel {

// One group, or two: an inner one of I members with fast links among them, and an outer one of J members, in which the
// ranks with the same member number of their inner groups are together (so that every rank of a node talks to the other
// nodes). The I J ranks exchange a flat buffer of I J equal blocks, and block i J + j belongs to the rank that is
// member i of its inner group and member j of its outer group: both exchanges then read and write neighbouring blocks.
// A reduction goes through the inner group first and leaves blocks i J to i J + J - 1 there; a gather goes through the
// outer group first. With one group, block i belongs to member i.
//
// A single group in which the ranks stand in the order of their blocks gives each rank the same block.
struct Route {
  Route(comm::Comm& group) : inner(&group) {}
  // A group of one member is left out: nothing is encoded twice for it.
  Route(comm::Comm& inner_group, comm::Comm& outer_group)
      : inner(inner_group.size() > 1 ? &inner_group : &outer_group),
        outer(inner_group.size() > 1 && outer_group.size() > 1 ? &outer_group : nullptr) {}

  // Members, and the block of this one.
  int64_t size() const { return inner->size() * outer_size(); }
  int64_t block() const { return inner->member() * outer_size() + (outer != nullptr ? outer->member() : 0); }
  int64_t outer_size() const { return outer != nullptr ? outer->size() : 1; }

  comm::Comm* inner;
  comm::Comm* outer = nullptr;  // none: one hop
};

}  // namespace terrace::parallel
