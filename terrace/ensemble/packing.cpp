// Tries with more and more members on all places, until the loads are even enough.
#include "terrace/ensemble/packing.h"

#include <algorithm>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::ensemble {
namespace {

PackedMembers with_on_all(std::span<const double> costs, int64_t places, const std::vector<size_t>& from_costliest,
                          std::vector<size_t> on_all) {
  PackedMembers packing{.on_all = std::move(on_all),
                        .on_place = std::vector<std::vector<size_t>>(static_cast<size_t>(places))};
  double shared = 0;
  for (const size_t member : packing.on_all) shared += costs[member] / static_cast<double>(places);
  std::vector<double> loads(static_cast<size_t>(places), shared);
  for (const size_t member : from_costliest) {
    if (std::ranges::find(packing.on_all, member) != packing.on_all.end()) continue;
    const auto place = static_cast<size_t>(std::ranges::min_element(loads) - loads.begin());
    packing.on_place[place].push_back(member);
    loads[place] += costs[member];
  }
  packing.greatest = std::ranges::max(loads);
  packing.mean = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(places);
  return packing;
}

}  // namespace

PackedMembers pack(std::span<const double> costs, int64_t places, const std::vector<bool>& may_be_on_all,
                   double most_over_mean) {
  TERRACE_CHECK(places > 0, "{} places", places);
  std::vector<size_t> from_costliest(costs.size());
  std::iota(from_costliest.begin(), from_costliest.end(), size_t{0});
  std::ranges::stable_sort(from_costliest, std::ranges::greater{}, [&](size_t member) { return costs[member]; });
  std::vector<size_t> on_all;
  PackedMembers best = with_on_all(costs, places, from_costliest, on_all);
  for (const size_t member : from_costliest) {
    if (best.greatest_over_mean() <= most_over_mean) break;
    if (may_be_on_all.empty() || !may_be_on_all[member]) continue;
    on_all.push_back(member);
    PackedMembers next = with_on_all(costs, places, from_costliest, on_all);
    if (next.greatest < best.greatest) best = std::move(next);
  }
  return best;
}

}  // namespace terrace::ensemble
