// Computes partners and blocks: after steps over distances 1, 2, 4 and so on a member has as many blocks, from its own
// one on.
#include "terrace/comm/doubling.h"

#include <algorithm>

namespace terrace::comm {
namespace {

std::vector<BlockRun> runs_of(int64_t begin, int64_t count, int64_t members) {
  const int64_t first = std::min(count, members - begin);
  std::vector<BlockRun> runs = {{begin, first}};
  if (first < count) runs.push_back({0, count - first});
  return runs;
}

}  // namespace

std::vector<DoublingStep> doubling_steps(int64_t members, int64_t member) {
  std::vector<DoublingStep> steps;
  for (int64_t distance = 1; distance < members; distance *= 2) {
    const int64_t count = std::min(distance, members - distance), from = (member + distance) % members;
    steps.push_back({.to = (member + members - distance) % members,
                     .from = from,
                     .sent = runs_of(member, count, members),
                     .received = runs_of(from, count, members)});
  }
  return steps;
}

}  // namespace terrace::comm
