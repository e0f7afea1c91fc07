// Dynamic programming over the first units and parts.
#include "terrace/schedule/split.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::schedule {
namespace {

// cost_from[k][u]: the best total of giving the units u .. to the last k parts, where a part's worth is a function of
// its cost and totals are combined by `combine`. Infinite where it cannot be.
class Table {
 public:
  Table(const std::vector<double>& costs, int64_t parts)
      : units_(static_cast<int64_t>(costs.size())), parts_(parts), before_(costs.size() + 1, 0.0) {
    std::partial_sum(costs.begin(), costs.end(), before_.begin() + 1);
  }

  template <typename Worth, typename Combine>
  void fill(const Worth& worth, const Combine& combine) {
    constexpr double never = std::numeric_limits<double>::infinity();
    best_.assign(static_cast<size_t>(parts_ + 1), std::vector<double>(static_cast<size_t>(units_ + 1), never));
    first_.assign(best_.size(), std::vector<int64_t>(static_cast<size_t>(units_ + 1), 0));
    best_[0].back() = 0.0;
    for (int64_t k = 1; k <= parts_; ++k) {
      for (int64_t u = 0; u <= units_ - k; ++u) {
        for (int64_t count = 1; u + count <= units_ - k + 1; ++count) {
          const double total = combine(worth(cost(u, u + count)), at(best_, k - 1, u + count));
          // Only where it is truly better, so that the first of equals, with the fewest units, stays.
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
    for (int64_t k = parts_, unit = 0; k >= 1; --k) {
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

  int64_t units_, parts_;
  std::vector<double> before_;               // by unit: the cost of those before it
  std::vector<std::vector<double>> best_;    // by the number of last parts and the first of their units
  std::vector<std::vector<int64_t>> first_;  // likewise: units of the first of these parts
};

std::string even_split(int64_t layers, int64_t parts) {
  std::string text;
  for (int64_t part = 0; part < parts; ++part) {
    text += fmt::format("{}{}", part == 0 ? "" : ", ", layers * (part + 1) / parts - layers * part / parts);
  }
  return text;
}

}  // namespace

std::vector<int64_t> split_by_cost(const std::vector<double>& costs, int64_t parts) {
  const auto units = static_cast<int64_t>(costs.size());
  TERRACE_CHECK(parts >= 1, "{} parts", parts);
  TERRACE_CHECK(std::all_of(costs.begin(), costs.end(), [](double cost) { return cost >= 0; }), "a cost below 0");
  if (parts > units) {
    throw UserError::of("{} parts (stages * chunks) are more than the {} units of the model; use at most {}", parts,
                        units, units);
  }
  Table table(costs, parts);
  table.fill([](double cost) { return cost; }, [](double a, double b) { return std::max(a, b); });
  const double limit = table.best();
  const auto worth = [limit](double cost) {
    return cost <= limit ? cost * cost : std::numeric_limits<double>::infinity();
  };
  table.fill(worth, [](double a, double b) { return a + b; });
  return table.split();
}

void check_given_split(const std::vector<int64_t>& layers_of_part, int64_t layers, int64_t parts) {
  if (static_cast<int64_t>(layers_of_part.size()) != parts) {
    throw UserError::of("the split names {} parts, but there are {} (stages * chunks); give {} numbers, such as {}",
                        layers_of_part.size(), parts, parts, even_split(layers, parts));
  }
  for (size_t i = 0; i < layers_of_part.size(); ++i) {
    const bool at_an_end = i == 0 || i + 1 == layers_of_part.size();
    if (layers_of_part[i] < (at_an_end ? 0 : 1)) {
      throw UserError::of("the split gives {} layers to part {}; use {} or more", layers_of_part[i], i,
                          at_an_end ? 0 : 1);
    }
  }
  const int64_t sum = std::accumulate(layers_of_part.begin(), layers_of_part.end(), int64_t{0});
  if (sum != layers) {
    throw UserError::of("the split shares out {} layers, but the model has {}; use {}, for example", sum, layers,
                        even_split(layers, parts));
  }
}

}  // namespace terrace::schedule
