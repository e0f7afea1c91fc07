// Some ranks in an order, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::mesh {

// Ranks of the world; a rank's position in the list is its member number. Collectives hand out blocks by member number
// and add in ascending order of the ranks, so that groups of the same ranks in another order add alike.
struct Group {
  std::string name;  // what it is for: "data", "shard_weights"
  std::vector<int64_t> ranks;

  bool operator==(const Group&) const = default;
};

// All of `ranks` ranks in order.
Group all_ranks(std::string name, int64_t ranks);

}  // namespace terrace::mesh
