// The time of a collective of one group of ranks on a machine, while all groups like it communicate at the same time.
// docs/cost_model.md has the formulas.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "terrace/machine/machine.h"
#include "terrace/mesh/group.h"

namespace terrace::plan {

// all_to_all: every rank sends each other rank its block of a tensor of its own.
enum class CollectiveKind { all_gather, reduce_scatter, all_reduce, all_to_all, send };

enum class Algorithm {
  ring,                // each rank passes blocks on to the next one
  tree,                // all-reduce: two trees over the nodes, each for half of the data, and a chain inside a node
  recursive_doubling,  // in each step pairs of ranks exchange, with twice as many blocks as in the step before
  bruck,               // gathers: over distances 1, 2, 4 and so on each rank sends on all blocks that it has
  direct,              // each rank sends its blocks to every other rank; none passes on another's
  two_hop,             // two calls: among the ranks inside each unit of a tier, and among those with the same place in
                       // their units; each by the fastest of the other algorithms
};
std::string_view name_of(Algorithm algorithm);

// The place of a group on the tiers of the machine. All groups of one axis of the mesh lie in the same way.
struct GroupPlace {
  int64_t ranks = 1;
  std::vector<int64_t> members;  // by tier: the most members in one unit of the tier
  std::vector<int64_t> groups;   // by tier: groups with members in one unit, which share its links

  bool operator==(const GroupPlace&) const = default;
};

// Rank r is device r. The first `ranks` devices all belong to such groups, which communicate at the same time; 0: all
// devices of the machine.
GroupPlace place_of(const mesh::Group& group, const machine::Machine& machine, int64_t ranks = 0);

struct CollectiveTime {
  double seconds = 0;
  double latency_seconds = 0;  // the part of `seconds` that does not depend on the bytes
  Algorithm algorithm = Algorithm::ring;
  int64_t tier = 0;  // the tier whose links limit the call
};

// `bytes` of the whole tensor: all members' parts of a gather or reduction together. The fastest of the algorithms that
// the program has is taken, a ring if none of them fits the collective. Where the outermost tier that the group uses
// has Exchange::direct, a direct exchange takes the place of rings and trees. 0 seconds for one rank. A send has two
// ranks and no choice.
CollectiveTime collective_time(CollectiveKind collective, double bytes, const GroupPlace& place,
                               const machine::Machine& machine, const std::vector<Algorithm>& algorithms);

// Bytes that one rank sends, in the algorithms that send least.
double sent_bytes(CollectiveKind collective, double bytes, int64_t ranks);

}  // namespace terrace::plan
