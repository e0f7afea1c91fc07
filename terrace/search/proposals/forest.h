// Regression by a forest of extremely randomised trees: Geurts, Ernst and Wehenkel, "Extremely randomized trees",
// Machine Learning 63, 2006. Each tree is grown on all samples. At each node every coordinate proposes one cut at
// random, and the cut that explains most of the variance is taken. A leaf holds samples with equal values or at equal
// points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "terrace/base/random.h"

namespace terrace::search {

class Forest {
 public:
  struct Prediction {
    double mean = 0;
    double spread = 0;  // the standard deviation of the trees' values
  };

  // A number is cut in two ranges; of a categorical coordinate one value is separated from all others.
  explicit Forest(std::vector<bool> is_categorical) : is_categorical_(std::move(is_categorical)) {}

  // `points` is [values, coordinates], with at least one value. The key determines all random cuts.
  void fit(std::span<const double> points, std::span<const double> values, PhiloxKey key);
  // Predicts the value at a point. Not to be called before fit().
  Prediction predict(std::span<const double> at) const;

 private:
  friend class TreeGrower;
  struct Cut {
    size_t coordinate = 0;
    bool is_categorical = false;
    double at = 0;

    // The one categorical value, or the numbers below the cut.
    bool is_left(std::span<const double> point) const {
      return is_categorical ? point[coordinate] == at : point[coordinate] < at;
    }
  };
  struct Node {
    Cut cut;
    double value = 0;  // of a leaf
    size_t right = 0;  // the left child is the next node; 0: a leaf
  };
  using Tree = std::vector<Node>;

  std::vector<bool> is_categorical_;
  std::vector<Tree> trees_;
};

}  // namespace terrace::search
