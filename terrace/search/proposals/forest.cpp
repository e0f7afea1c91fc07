// Grows the trees, each with random numbers of its own.
#include "terrace/search/proposals/forest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

constexpr size_t num_trees = 20;

}  // namespace

class TreeGrower {
 public:
  TreeGrower(const std::vector<bool>& is_categorical, std::span<const double> points, std::span<const double> values,
             PhiloxKey key, uint64_t tree)
      : is_categorical_(is_categorical), points_(points), values_(values), key_(key), tree_(tree) {}

  Forest::Tree grow() {
    std::vector<size_t> samples(values_.size());
    std::iota(samples.begin(), samples.end(), size_t{0});
    // A stack instead of recursion: a tree can be as deep as it has samples.
    struct Waiting {
      std::span<size_t> samples;
      std::optional<size_t> parent;  // the node whose right child it is
    };
    std::vector<Waiting> stack = {{samples, {}}};
    Forest::Tree tree;
    while (!stack.empty()) {
      const Waiting one = stack.back();
      stack.pop_back();
      const size_t number = tree.size();
      tree.emplace_back();
      if (one.parent) tree[*one.parent].right = number;
      const std::optional<Forest::Cut> cut = best_cut(one.samples);
      if (!cut) {
        tree[number].value = mean(one.samples);
        continue;
      }
      tree[number].cut = *cut;
      const auto middle = std::partition(one.samples.begin(), one.samples.end(),
                                         [&](size_t sample) { return cut->is_left(point(sample)); });
      const auto left_size = static_cast<size_t>(middle - one.samples.begin());
      stack.push_back({one.samples.subspan(left_size), number});
      stack.push_back({one.samples.first(left_size), {}});
    }
    return tree;
  }

 private:
  std::span<const double> point(size_t sample) const {
    return points_.subspan(sample * is_categorical_.size(), is_categorical_.size());
  }

  double mean(std::span<const size_t> samples) const {
    double sum = 0;
    for (const size_t sample : samples) sum += values_[sample];
    return sum / static_cast<double>(samples.size());
  }

  double uniform() {
    const PhiloxBlock block = philox_at(key_, drawn_++, tree_);
    return unit_uniform(block[0], block[1]);
  }

  std::optional<Forest::Cut> best_cut(std::span<const size_t> samples) {
    const auto value = [&](size_t sample) { return values_[sample]; };
    if (std::ranges::adjacent_find(samples, std::ranges::not_equal_to(), value) == samples.end()) return std::nullopt;
    const double centre = mean(samples);
    std::optional<Forest::Cut> best;
    double most = 0;
    for (size_t coordinate = 0; coordinate < is_categorical_.size(); ++coordinate) {
      const std::optional<Forest::Cut> cut = random_cut(samples, coordinate);
      if (!cut) continue;
      const double gain = explained(samples, *cut, centre);
      if (best && gain <= most) continue;
      best = cut;
      most = gain;
    }
    return best;
  }

  // A random cut of the samples in a coordinate. None if the samples are equal in the coordinate; otherwise both sides
  // have a sample.
  std::optional<Forest::Cut> random_cut(std::span<const size_t> samples, size_t coordinate) {
    const auto of = [&](size_t sample) { return point(sample)[coordinate]; };
    const auto [least, largest] = std::ranges::minmax_element(samples, {}, of);
    const double low = of(*least), high = of(*largest);
    if (low == high) return std::nullopt;
    if (is_categorical_[coordinate]) {
      const auto number = static_cast<size_t>(uniform() * static_cast<double>(samples.size()));
      return Forest::Cut{coordinate, true, of(samples[number])};
    }
    const double at = high - uniform() * (high - low);
    return Forest::Cut{coordinate, false, at > low ? at : high};
  }

  // The sum of squares that lies between the means of both sides.
  double explained(std::span<const size_t> samples, const Forest::Cut& cut, double centre) const {
    double left = 0, right = 0, left_count = 0;
    for (const size_t sample : samples) {
      const bool is_left = cut.is_left(point(sample));
      (is_left ? left : right) += values_[sample] - centre;
      left_count += is_left ? 1 : 0;
    }
    return left * left / left_count + right * right / (static_cast<double>(samples.size()) - left_count);
  }

  const std::vector<bool>& is_categorical_;
  std::span<const double> points_;  // [values, coordinates]
  std::span<const double> values_;
  PhiloxKey key_;
  uint64_t tree_;
  uint64_t drawn_ = 0;
};

void Forest::fit(std::span<const double> points, std::span<const double> values, PhiloxKey key) {
  TERRACE_CHECK(!values.empty() && points.size() == values.size() * is_categorical_.size(),
                "{} values of {} coordinates have {} numbers", values.size(), is_categorical_.size(), points.size());
  trees_.clear();
  for (size_t tree = 0; tree < num_trees; ++tree) {
    trees_.push_back(TreeGrower(is_categorical_, points, values, key, tree).grow());
  }
}

Forest::Prediction Forest::predict(std::span<const double> at) const {
  // Welford's recurrence: equal values have the spread 0.
  double mean = 0, squares = 0, count = 0;
  for (const Tree& tree : trees_) {
    size_t node = 0;
    while (tree[node].right != 0) node = tree[node].cut.is_left(at) ? node + 1 : tree[node].right;
    const double difference = tree[node].value - mean;
    mean += difference / ++count;
    squares += difference * (tree[node].value - mean);
  }
  return {mean, std::sqrt(squares / count)};
}

}  // namespace terrace::search
