// Grows the trees, each with random numbers of its own.
#include "terrace/search/forest.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/random.h"

namespace terrace::search {

class TreeGrower {
 public:
  using Samples = std::vector<std::vector<double>>;

  TreeGrower(const Samples& samples, const std::vector<double>& values, PhiloxKey key, std::vector<Forest::Node>& nodes)
      : samples_(samples), values_(values), key_(key), nodes_(nodes), order_(samples.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  // A stack instead of recursion: a tree can be as deep as it has samples.
  void grow() {
    struct Waiting {
      size_t begin, end;
      size_t parent;  // whose right child it is
      bool is_right;
    };
    std::vector<Waiting> stack = {{0, order_.size(), 0, false}};
    while (!stack.empty()) {
      const Waiting one = stack.back();
      stack.pop_back();
      const size_t number = nodes_.size();
      nodes_.emplace_back();
      if (one.is_right) nodes_[one.parent].right = static_cast<uint32_t>(number);
      const Cut cut = best_cut(one.begin, one.end);
      if (!cut.found) {
        nodes_[number].value = mean(one.begin, one.end);
        continue;
      }
      nodes_[number].feature = static_cast<uint32_t>(cut.feature);
      nodes_[number].cut = cut.at;
      const auto middle = std::partition(order_.begin() + static_cast<int64_t>(one.begin),
                                         order_.begin() + static_cast<int64_t>(one.end),
                                         [&](size_t row) { return samples_[row][cut.feature] < cut.at; });
      const auto split = static_cast<size_t>(middle - order_.begin());
      stack.push_back({split, one.end, number, true});
      stack.push_back({one.begin, split, number, false});
    }
  }

 private:
  struct Cut {
    bool found = false;
    size_t feature = 0;
    double at = 0, gain = 0;
  };

  double mean(size_t begin, size_t end) const {
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += values_[order_[i]];
    return sum / static_cast<double>(end - begin);
  }

  double uniform() {
    const PhiloxBlock block = philox_at(key_, drawn_++, 0);
    return unit_uniform(block[0], block[1]);
  }

  bool has_equal_values(size_t begin, size_t end) const {
    return std::all_of(order_.begin() + static_cast<int64_t>(begin), order_.begin() + static_cast<int64_t>(end),
                       [&](size_t row) { return values_[row] == values_[order_[begin]]; });
  }

  Cut best_cut(size_t begin, size_t end) {
    Cut best;
    if (has_equal_values(begin, end)) return best;
    const double centre = mean(begin, end);
    for (size_t feature = 0; feature < samples_.front().size(); ++feature) {
      double low = samples_[order_[begin]][feature], high = low;
      for (size_t i = begin; i < end; ++i) {
        low = std::min(low, samples_[order_[i]][feature]);
        high = std::max(high, samples_[order_[i]][feature]);
      }
      if (low == high) continue;
      // In (low, high], so that both sides have a sample.
      const double at = high - uniform() * (high - low);
      const double gain = explained(begin, end, feature, at > low ? at : high, centre);
      if (!best.found || gain > best.gain) best = {true, feature, at > low ? at : high, gain};
    }
    return best;
  }

  // The sum of squares that lies between the means of both sides.
  double explained(size_t begin, size_t end, size_t feature, double at, double centre) const {
    double left = 0, right = 0;
    size_t left_count = 0;
    for (size_t i = begin; i < end; ++i) {
      const double value = values_[order_[i]] - centre;
      const bool is_left = samples_[order_[i]][feature] < at;
      (is_left ? left : right) += value;
      left_count += is_left ? 1 : 0;
    }
    return left * left / static_cast<double>(left_count) +
           right * right / static_cast<double>(end - begin - left_count);
  }

  const Samples& samples_;
  const std::vector<double>& values_;
  PhiloxKey key_;
  std::vector<Forest::Node>& nodes_;
  std::vector<size_t> order_;  // the samples, those of a node side by side
  uint64_t drawn_ = 0;
};

Forest::Forest(const std::vector<std::vector<double>>& samples, const std::vector<double>& values, size_t trees,
               uint64_t seed)
    : trees_(trees) {
  TERRACE_CHECK(!samples.empty() && samples.size() == values.size(), "{} samples have {} values", samples.size(),
                values.size());
  for (size_t tree = 0; tree < trees; ++tree) {
    TreeGrower(samples, values, stream_key(seed, "tree " + std::to_string(tree)), trees_[tree]).grow();
  }
}

Forest::Prediction Forest::predict(std::span<const double> features) const {
  double sum = 0;
  std::vector<double> values;
  values.reserve(trees_.size());
  for (const std::vector<Node>& nodes : trees_) {
    size_t at = 0;
    while (nodes[at].right != 0) at = features[nodes[at].feature] < nodes[at].cut ? at + 1 : nodes[at].right;
    values.push_back(nodes[at].value);
    sum += values.back();
  }
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / static_cast<double>(values.size()))};
}

}  // namespace terrace::search
