// A forest of extremely randomised regression trees: Geurts, Ernst, Wehenkel, "Extremely randomized trees", Machine
// Learning 63, 2006. Each tree is grown on all samples. At each node every feature proposes one cut, drawn uniformly
// between its least and its largest value, and the cut that explains most of the variance is taken. A leaf holds
// samples with equal values or equal features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace terrace::search {

class Forest {
 public:
  struct Prediction {
    double mean = 0;
    double spread = 0;  // the standard deviation of the trees' values
  };

  // Samples are rows of features, at least one, all with as many; the same seed and samples give the same forest.
  Forest(const std::vector<std::vector<double>>& samples, const std::vector<double>& values, size_t trees,
         uint64_t seed);

  Prediction predict(std::span<const double> features) const;

 private:
  friend class TreeGrower;
  struct Node {
    double cut = 0;    // features below go left
    double value = 0;  // of a leaf
    uint32_t feature = 0;
    uint32_t right = 0;  // the left child is the next node; 0: a leaf
  };
  std::vector<std::vector<Node>> trees_;
};

}  // namespace terrace::search
