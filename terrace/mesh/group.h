// A group of ranks as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace::mesh {

// An ordered list of ranks of the world; the position of a rank in the list is its member number. Collectives assign
// blocks by member number and add in ascending order of ranks, so groups of the same ranks in another order have the
// same sums.
struct Group {
  std::string name;  // the purpose: "data", "shard_weights"
  std::vector<int64_t> ranks;

  bool operator==(const Group&) const = default;
};

// One direction between two members of a group: `from` sends messages, `to` receives them.
struct Direction {
  int64_t from = 0, to = 0;  // member numbers

  bool operator==(const Direction&) const = default;
};

// All of `ranks` ranks in order.
Group all_ranks(std::string name, int64_t ranks);

}  // namespace terrace::mesh
