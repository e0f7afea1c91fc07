// Chooses combinations of settings that cover every possible pair of values.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace terrace::testing {

using Combination = std::vector<size_t>;  // by setting, the index of its value

struct ValuePair {
  size_t setting, value, other_setting, other_value;
  auto operator<=>(const ValuePair&) const = default;
};

inline std::vector<ValuePair> pairs_of(const Combination& combination) {
  std::vector<ValuePair> pairs;
  for (size_t a = 0; a < combination.size(); ++a) {
    for (size_t b = a + 1; b < combination.size(); ++b) pairs.push_back({a, combination[a], b, combination[b]});
  }
  return pairs;
}

inline std::set<ValuePair> pairs_among(const std::vector<Combination>& combinations) {
  std::set<ValuePair> pairs;
  for (const Combination& combination : combinations) {
    for (const ValuePair& pair : pairs_of(combination)) pairs.insert(pair);
  }
  return pairs;
}

// All possible combinations; `values` has the number of values of each setting.
inline std::vector<Combination> all_combinations(const std::vector<size_t>& values,
                                                 const std::function<bool(const Combination&)>& is_possible) {
  std::vector<Combination> combinations;
  Combination next(values.size());
  for (size_t setting = 0; setting < values.size();) {
    if (is_possible(next)) combinations.push_back(next);
    for (setting = 0; setting < values.size() && ++next[setting] == values[setting]; ++setting) next[setting] = 0;
  }
  return combinations;
}

// A subset of `all` with every pair that occurs in `all`. Greedy: each step takes the combination with the most missing
// pairs and, among several of these, the one whose values have occurred least.
inline std::vector<Combination> pairwise_cover(const std::vector<Combination>& all) {
  std::set<ValuePair> missing = pairs_among(all);
  std::map<std::pair<size_t, size_t>, int> seen;  // times, by setting and value
  const auto times_seen = [&](const Combination& combination) {
    int times = 0;
    for (size_t setting = 0; setting < combination.size(); ++setting) times += seen[{setting, combination[setting]}];
    return times;
  };
  std::vector<Combination> cover;
  while (!missing.empty()) {
    std::pair<ptrdiff_t, int> best_rank{0, 0};
    const Combination* best = nullptr;
    for (const Combination& combination : all) {
      const auto pairs = pairs_of(combination);
      const ptrdiff_t gain = std::ranges::count_if(pairs, [&](const auto& pair) { return missing.contains(pair); });
      if (gain < best_rank.first) continue;
      const std::pair<ptrdiff_t, int> rank{gain, -times_seen(combination)};
      if (best == nullptr || rank > best_rank) best_rank = rank, best = &combination;
    }
    cover.push_back(*best);
    for (const ValuePair& pair : pairs_of(*best)) missing.erase(pair);
    for (size_t setting = 0; setting < best->size(); ++setting) ++seen[{setting, (*best)[setting]}];
  }
  return cover;
}

}  // namespace terrace::testing
