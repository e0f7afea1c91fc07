// Finds the best split by dynamic programming over the last units and the last virtual stages.
#include "terrace/schedule/step/split.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

// The costs of runs of consecutive units. A run with more units never costs less, also after rounding.
class RunCosts {
 public:
  explicit RunCosts(const std::vector<double>& costs)
      : units_(static_cast<int64_t>(costs.size())), before_(costs.size() + 1, 0.0) {
    std::partial_sum(costs.begin(), costs.end(), before_.begin() + 1);
  }

  int64_t units() const { return units_; }
  double of(int64_t begin, int64_t end) const {
    return before_[static_cast<size_t>(end)] - before_[static_cast<size_t>(begin)];
  }

 private:
  int64_t units_;
  std::vector<double> before_;  // by unit: the cost of all units before it
};

// The first number from `begin` on for which `holds` is true; `end` if there is none before. False numbers come first.
template <typename Holds>
int64_t first_that(int64_t begin, int64_t end, const Holds& holds) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (holds(middle)) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

// The least possible cost of the most expensive virtual stage. least[u] is that of the units from u on, divided among
// the last k virtual stages; it never rises with u, while the cost of the first of these stages never falls with its
// end, so that the best end is where the two meet.
double least_limit(const RunCosts& costs, int64_t virtual_stages) {
  std::vector<double> least(static_cast<size_t>(costs.units()) + 1, 0.0);
  for (int64_t u = 0; u < costs.units(); ++u) least[static_cast<size_t>(u)] = costs.of(u, costs.units());
  for (int64_t k = 2; k <= virtual_stages; ++k) {
    const int64_t last_end = costs.units() - k + 1;  // a unit is left for each of the others
    for (int64_t u = 0; u < last_end; ++u) {
      // least[u] is overwritten after its last use: only later units are read.
      const auto rest = [&](int64_t end) { return least[static_cast<size_t>(end)]; };
      const int64_t met = first_that(u + 1, last_end, [&](int64_t end) { return costs.of(u, end) >= rest(end); });
      const double at_met = std::max(costs.of(u, met), rest(met));
      least[static_cast<size_t>(u)] = met > u + 1 ? std::min(at_met, rest(met - 1)) : at_met;
    }
  }
  return least.front();
}

// The split with the smallest sum of squared costs among those in which no virtual stage costs more than `limit`.
// total[u] is this sum for the units from u on, divided among the last k virtual stages, where u is a unit with which
// these can begin under the limit. These are few where the limit is close to the mean cost.
class LimitedSplit {
 public:
  LimitedSplit(const RunCosts& costs, int64_t virtual_stages, double limit)
      : costs_(costs), stages_(virtual_stages), limit_(limit), starts_(static_cast<size_t>(virtual_stages) + 1) {
    // Greedy stages from the left and from the right reach as far as any.
    starts_[static_cast<size_t>(stages_)].last = 0;
    for (int64_t k = stages_; k > 0; --k) {
      const int64_t begin = of(k).last, most = costs.units() - k + 1;
      of(k - 1).last = first_that(begin + 1, most + 1, [&](int64_t end) { return exceeds(begin, end); }) - 1;
    }
    of(0).first = costs.units();
    for (int64_t k = 1; k <= stages_; ++k) {
      const int64_t end = of(k - 1).first, least = stages_ - k;
      of(k).first = first_that(least, end - 1, [&](int64_t begin) { return !exceeds(begin, end); });
    }
    of(0).totals = {0.0};
    of(0).ends = {0};
    for (int64_t k = 1; k <= stages_; ++k) fill(k);
  }

  std::vector<int64_t> counts() {
    std::vector<int64_t> counts;
    for (int64_t k = stages_, unit = 0; k >= 1; --k) {
      const int64_t end = of(k).ends[static_cast<size_t>(unit - of(k).first)];
      counts.push_back(end - unit);
      unit = end;
    }
    return counts;
  }

 private:
  // The units with which the last k virtual stages can begin, and the best split for each.
  struct Starts {
    int64_t first = 0, last = 0;
    std::vector<double> totals;
    std::vector<int64_t> ends;  // of the first of these virtual stages
  };
  Starts& of(int64_t k) { return starts_[static_cast<size_t>(k)]; }
  bool exceeds(int64_t begin, int64_t end) const { return costs_.of(begin, end) > limit_; }

  void fill(int64_t k) {
    const Starts& next = of(k - 1);
    Starts& own = of(k);
    for (int64_t begin = own.first; begin <= own.last; ++begin) {
      double best = std::numeric_limits<double>::infinity();
      int64_t best_end = 0;
      for (int64_t end = std::max(begin + 1, next.first); end <= next.last && !exceeds(begin, end); ++end) {
        const double cost = costs_.of(begin, end);
        const double total = cost * cost + next.totals[static_cast<size_t>(end - next.first)];
        // Among equal totals the first one, with the fewest units, stays.
        if (total >= best) continue;
        best = total;
        best_end = end;
      }
      own.totals.push_back(best);
      own.ends.push_back(best_end);
    }
  }

  const RunCosts& costs_;
  int64_t stages_;
  double limit_;
  std::vector<Starts> starts_;
};

std::string even_split(int64_t layers, int64_t virtual_stages) {
  std::string text;
  for (int64_t virtual_stage = 0; virtual_stage < virtual_stages; ++virtual_stage) {
    text += fmt::format("{}{}", virtual_stage == 0 ? "" : ", ",
                        layers * (virtual_stage + 1) / virtual_stages - layers * virtual_stage / virtual_stages);
  }
  return text;
}

}  // namespace

std::vector<int64_t> split_by_cost(const std::vector<double>& costs, int64_t virtual_stages) {
  const auto units = static_cast<int64_t>(costs.size());
  TERRACE_CHECK(virtual_stages >= 1, "{} virtual stages", virtual_stages);
  TERRACE_CHECK(std::all_of(costs.begin(), costs.end(), [](double cost) { return cost >= 0; }), "a cost below 0");
  if (virtual_stages > units) {
    throw UserError::of("{} virtual stages (stages * chunks) are more than the {} units of the model; use at most {}",
                        virtual_stages, units, units);
  }
  const RunCosts runs(costs);
  return LimitedSplit(runs, virtual_stages, least_limit(runs, virtual_stages)).counts();
}

void check_given_split(const std::vector<int64_t>& layers_of_stage, int64_t layers, int64_t virtual_stages) {
  if (static_cast<int64_t>(layers_of_stage.size()) != virtual_stages) {
    throw UserError::of(
        "the split names {} virtual stages, but there are {} (stages * chunks); give {} numbers, such as {}",
        layers_of_stage.size(), virtual_stages, virtual_stages, even_split(layers, virtual_stages));
  }
  for (size_t i = 0; i < layers_of_stage.size(); ++i) {
    const bool at_an_end = i == 0 || i + 1 == layers_of_stage.size();
    if (layers_of_stage[i] < (at_an_end ? 0 : 1)) {
      throw UserError::of("the split gives {} layers to virtual stage {}; use {} or more", layers_of_stage[i], i,
                          at_an_end ? 0 : 1);
    }
  }
  const int64_t sum = std::accumulate(layers_of_stage.begin(), layers_of_stage.end(), int64_t{0});
  if (sum != layers) {
    throw UserError::of("the split has {} layers in all, but the model has {}; use {}, for example", sum, layers,
                        even_split(layers, virtual_stages));
  }
}

}  // namespace terrace::schedule
