// Draws the groups of a dataset in a seeded order.
#include "terrace/data/graphs/dataset/graph_parts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <unordered_map>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/base/text/plural.h"
#include "terrace/data/graphs/dataset/graphs_description.h"

namespace terrace::data {
namespace {

// Returns whole numbers of structures that add up to all: the shares rounded down, and the rest to the largest
// remainders.
std::array<double, 3> counts_of(const std::array<double, 3>& shares, size_t structures) {
  std::array<double, 3> exact = {}, counts = {};
  double left = static_cast<double>(structures);
  for (size_t part = 0; part < 3; ++part) {
    exact[part] = shares[part] * static_cast<double>(structures);
    counts[part] = std::floor(exact[part] + 1e-9);
    left -= counts[part];
  }
  for (; left > 0.5; --left) {
    size_t most = 0;
    for (size_t part = 1; part < 3; ++part) {
      if (exact[part] - counts[part] > exact[most] - counts[most]) most = part;
    }
    ++counts[most];
  }
  return counts;
}

}  // namespace

std::vector<uint8_t> divide_structures(std::span<const uint64_t> groups, const std::array<double, 3>& shares,
                                       uint64_t seed) {
  std::unordered_map<uint64_t, size_t> number_of_group;
  std::vector<size_t> sizes;
  for (const uint64_t group : groups) {
    const auto [found, is_new] = number_of_group.try_emplace(group, sizes.size());
    if (is_new) sizes.push_back(0);
    ++sizes[found->second];
  }
  std::array<double, 3> missing = counts_of(shares, groups.size());
  std::array<size_t, 3> has = {};
  std::vector<uint8_t> part_of_group(sizes.size());
  const PhiloxKey key = stream_key(seed, "parts of graphs");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t group = permute(key, sizes.size(), i);
    // The last groups go to the parts that have none.
    const auto is_open = [&](size_t part) { return shares[part] > 0 && has[part] == 0; };
    const size_t open = size_t{is_open(0)} + is_open(1) + is_open(2);
    const bool only_open = open > 0 && sizes.size() - i <= open;
    size_t most = 3;
    for (size_t part = 0; part < 3; ++part) {
      if (only_open && !is_open(part)) continue;
      if (most == 3 || missing[part] > missing[most]) most = part;
    }
    part_of_group[group] = static_cast<uint8_t>(most);
    missing[most] -= static_cast<double>(sizes[group]);
    has[most] += sizes[group];
  }
  for (size_t part = 0; part < 3; ++part) {
    if (shares[part] > 0 && has[part] == 0) {
      throw UserError::of(
          "the part {} with the share {:g} gets none of {} in {}; give another --split or more structures",
          graph_splits[part], shares[part], counted(groups.size(), "structure"), counted(sizes.size(), "group"));
    }
  }
  std::vector<uint8_t> parts;
  parts.reserve(groups.size());
  for (const uint64_t group : groups) parts.push_back(part_of_group[number_of_group.at(group)]);
  return parts;
}

}  // namespace terrace::data
