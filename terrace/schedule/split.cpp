// Finds the best split by dynamic programming over the last units and the last virtual stages.
#include "terrace/schedule/split.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

// best_[k][u] is the smallest total with which the units from u on can be divided among the last k virtual stages. The
// total combines, by `combine`, the `worth` of each virtual stage, which is a function of its cost. Infinite where no
// such split exists.
class Table {
 public:
  Table(const std::vector<double>& costs, int64_t virtual_stages)
      : units_(static_cast<int64_t>(costs.size())), stages_(virtual_stages), before_(costs.size() + 1, 0.0) {
    std::partial_sum(costs.begin(), costs.end(), before_.begin() + 1);
  }

  template <typename Worth, typename Combine>
  void fill(const Worth& worth, const Combine& combine) {
    constexpr double never = std::numeric_limits<double>::infinity();
    best_.assign(static_cast<size_t>(stages_ + 1), std::vector<double>(static_cast<size_t>(units_ + 1), never));
    first_.assign(best_.size(), std::vector<int64_t>(static_cast<size_t>(units_ + 1), 0));
    best_[0].back() = 0.0;
    for (int64_t k = 1; k <= stages_; ++k) {
      for (int64_t u = 0; u <= units_ - k; ++u) {
        for (int64_t count = 1; u + count <= units_ - k + 1; ++count) {
          const double total = combine(worth(cost(u, u + count)), at(best_, k - 1, u + count));
          // Among equal totals the first one, with the fewest units, stays.
          if (total >= at(best_, k, u)) continue;
          at(best_, k, u) = total;
          at(first_, k, u) = count;
        }
      }
    }
  }

  double best() const { return best_.back().front(); }

  std::vector<int64_t> split() {
    std::vector<int64_t> counts;
    for (int64_t k = stages_, unit = 0; k >= 1; --k) {
      counts.push_back(at(first_, k, unit));
      unit += counts.back();
    }
    return counts;
  }

 private:
  template <typename Value>
  static Value& at(std::vector<std::vector<Value>>& table, int64_t row, int64_t column) {
    return table[static_cast<size_t>(row)][static_cast<size_t>(column)];
  }
  double cost(int64_t begin, int64_t end) const {
    return before_[static_cast<size_t>(end)] - before_[static_cast<size_t>(begin)];
  }

  int64_t units_, stages_;
  std::vector<double> before_;               // by unit: the cost of all units before it
  std::vector<std::vector<double>> best_;    // by the number of last virtual stages and the first of their units
  std::vector<std::vector<int64_t>> first_;  // by the same numbers: units of the first of these virtual stages
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
  Table table(costs, virtual_stages);
  table.fill([](double cost) { return cost; }, [](double a, double b) { return std::max(a, b); });
  const double limit = table.best();
  const auto worth = [limit](double cost) {
    return cost <= limit ? cost * cost : std::numeric_limits<double>::infinity();
  };
  table.fill(worth, [](double a, double b) { return a + b; });
  return table.split();
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
