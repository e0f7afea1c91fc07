// Keeps, for each budget, the trials that have ended there.
#include "terrace/search/halving.h"

#include <algorithm>

namespace terrace::search {

std::vector<int64_t> Halving::budgets() const {
  std::vector<int64_t> list;
  for (int64_t budget = first; budget < most; budget *= factor) list.push_back(budget);
  list.push_back(most);
  return list;
}

HalvingLadder::HalvingLadder(const Halving& halving) : factor_(halving.factor), budgets_(halving.budgets()) {}

void HalvingLadder::tell(int64_t trial, int64_t budget, Objective objective) { ended_[budget][trial] = {objective}; }

void HalvingLadder::set_promoted(int64_t trial, int64_t from_budget) { ended_[from_budget][trial].continued = true; }

std::optional<HalvingLadder::Promotion> HalvingLadder::promote() {
  for (size_t rung = budgets_.size() - 1; rung-- > 0;) {
    std::map<int64_t, Ended>& ended = ended_[budgets_[rung]];
    std::vector<int64_t> order;
    for (const auto& [trial, one] : ended) {
      if (one.objective) order.push_back(trial);
    }
    // Failed trials count, but do not continue.
    const auto share = static_cast<int64_t>(ended.size()) / factor_;
    std::ranges::stable_sort(order, std::greater<>(), [&](int64_t trial) { return *ended[trial].objective; });
    order.resize(static_cast<size_t>(std::min<int64_t>(share, static_cast<int64_t>(order.size()))));
    const auto next = std::ranges::find_if(order, [&](int64_t trial) { return !ended[trial].continued; });
    if (next == order.end()) continue;
    ended[*next].continued = true;
    return Promotion{*next, budgets_[rung + 1]};
  }
  return std::nullopt;
}

}  // namespace terrace::search
