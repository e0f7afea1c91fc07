// TreeSHAP values against Shapley's definition over all subsets of features, computed here from the text of the trees.
#include "terrace/search/explain/tree_model.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <set>

#include "terrace/base/random.h"
#include "terrace/base/text/json.h"

namespace terrace::search {
namespace {

// XGBoost adds leaves in fp32. The sum of the 40 trees' values is at most 100 here.
constexpr double tolerance = 40 * 100 * 0x1p-24;

// Every point of a small grid, some of them twice, and others left out, so that nodes have unequal covers.
Features uneven_grid(const std::vector<int>& sizes) {
  Features features{.columns = sizes.size()};
  size_t points = 1;
  for (const int size : sizes) points *= static_cast<size_t>(size);
  for (size_t point = 0; point < points; ++point) {
    const size_t copies = point % 7 == 0 ? 0 : point % 5 == 0 ? 3 : 1;
    for (size_t copy = 0; copy < copies; ++copy) {
      size_t rest = point;
      for (const int size : sizes) {
        features.values.push_back(static_cast<float>(rest % static_cast<size_t>(size)));
        rest /= static_cast<size_t>(size);
      }
    }
  }
  return features;
}

std::vector<double> targets_of(const Features& features, const std::function<double(const float*)>& function) {
  std::vector<double> targets;
  for (size_t row = 0; row < features.rows(); ++row) {
    targets.push_back(function(&features.values[row * features.columns]));
  }
  return targets;
}

// A node of a tree: of two children, or with a value alone.
struct Node {
  double value = 0, cover = 0;
  unsigned feature = 0;
  float below = 0;  // the first child has the rows whose feature is less
  std::vector<Node> children = {};
};

Node parse_node(const Json& json) {
  Node node{.cover = json["cover"].get<double>()};
  if (json.contains("leaf")) {
    node.value = json["leaf"].get<double>();
    return node;
  }
  node.feature = static_cast<unsigned>(std::stoi(json["split"].get<std::string>().substr(1)));
  node.below = json["split_condition"].get<float>();
  for (const char* branch : {"yes", "no"}) {
    for (const Json& child : json["children"]) {
      if (child["nodeid"] == json[branch]) node.children.push_back(parse_node(child));
    }
  }
  return node;
}

// The value of a tree where only the features in `known`, a set of bits, are known.
double expectation(const Node& node, const float* row, unsigned known) {
  if (node.children.empty()) return node.value;
  const Node &yes = node.children[0], &no = node.children[1];
  if ((known >> node.feature) & 1U) return expectation(row[node.feature] < node.below ? yes : no, row, known);
  return (yes.cover * expectation(yes, row, known) + no.cover * expectation(no, row, known)) / (yes.cover + no.cover);
}

class Enumerated {
 public:
  explicit Enumerated(const TreeModel& model) {
    for (const std::string& text : model.trees()) trees_.push_back(parse_node(Json::parse(text)));
  }

  // The value of every subset of `count` features.
  std::vector<double> values(const float* row, unsigned count) const {
    std::vector<double> values(size_t{1} << count, 0.0);
    for (unsigned subset = 0; subset < values.size(); ++subset) {
      for (const Node& tree : trees_) values[subset] += expectation(tree, row, subset);
    }
    return values;
  }

 private:
  std::vector<Node> trees_;
};

double factorial(int n) { return std::tgamma(n + 1); }

// Shapley, "A value for n-person games", 1953.
double shapley(const std::vector<double>& values, unsigned count, unsigned feature) {
  double sum = 0;
  for (unsigned subset = 0; subset < values.size(); ++subset) {
    if ((subset >> feature) & 1U) continue;
    const int size = std::popcount(subset);
    sum += factorial(size) * factorial(static_cast<int>(count) - size - 1) / factorial(static_cast<int>(count)) *
           (values[subset | (1U << feature)] - values[subset]);
  }
  return sum;
}

// The Shapley interaction index of two features, of which each gets a half: Fujimoto, Kojadinovic and Marichal,
// "Axiomatic characterizations of probabilistic and cardinal-probabilistic interaction indices", 2006.
double half_interaction(const std::vector<double>& values, unsigned count, unsigned a, unsigned b) {
  double sum = 0;
  for (unsigned subset = 0; subset < values.size(); ++subset) {
    if (((subset >> a) | (subset >> b)) & 1U) continue;
    const int size = std::popcount(subset);
    const unsigned with_a = subset | (1U << a), with_b = subset | (1U << b);
    sum += factorial(size) * factorial(static_cast<int>(count) - size - 2) /
           (2 * factorial(static_cast<int>(count) - 1)) *
           (values[with_a | with_b] - values[with_a] - values[with_b] + values[subset]);
  }
  return sum;
}

class SmallSpace : public testing::Test {
 protected:
  static constexpr unsigned count = 5;
  Features features_ = uneven_grid({3, 4, 2, 3, 2});
  TreeModel model_{features_,
                   targets_of(features_,
                              [](const float* x) {
                                return 10 * x[0] + 3 * x[1] + x[1] * x[2] - 4 * (x[0] > 1 && x[3] < 2 ? 1 : 0);
                              }),
                   {.rounds = 40, .depth = 4, .shrink = 0.3}};
};

TEST_F(SmallSpace, ContributionsAreShapleyValuesOverAllSubsets) {
  const Enumerated enumerated(model_);
  const std::vector<double> contributions = model_.contributions(features_);
  ASSERT_EQ(contributions.size(), features_.rows() * (count + 1));
  for (size_t row = 0; row < features_.rows(); ++row) {
    const std::vector<double> values = enumerated.values(&features_.values[row * count], count);
    for (unsigned feature = 0; feature < count; ++feature) {
      EXPECT_NEAR(contributions[row * (count + 1) + feature], shapley(values, count, feature), tolerance);
    }
    EXPECT_NEAR(contributions[row * (count + 1) + count], values.front(), tolerance);
  }
}

TEST_F(SmallSpace, InteractionsAreThoseOverAllSubsets) {
  const Enumerated enumerated(model_);
  const std::vector<double> interactions = model_.interactions(features_);
  constexpr size_t side = count + 1;
  ASSERT_EQ(interactions.size(), features_.rows() * side * side);
  for (size_t row = 0; row < features_.rows(); row += 3) {
    const std::vector<double> values = enumerated.values(&features_.values[row * count], count);
    for (unsigned a = 0; a < count; ++a) {
      for (unsigned b = 0; b < count; ++b) {
        if (a == b) continue;
        // XGBoost takes the difference of two contributions.
        EXPECT_NEAR(interactions[(row * side + a) * side + b], half_interaction(values, count, a, b), 2 * tolerance);
      }
    }
  }
}

TEST_F(SmallSpace, ContributionsAndInteractionsAddUp) {
  const std::vector<double> predictions = model_.predict(features_);
  const std::vector<double> contributions = model_.contributions(features_);
  const std::vector<double> interactions = model_.interactions(features_);
  constexpr size_t side = count + 1;
  for (size_t row = 0; row < features_.rows(); ++row) {
    double sum = 0;
    for (size_t i = 0; i < side; ++i) {
      sum += contributions[row * side + i];
      double of_feature = 0;
      for (size_t j = 0; j < side; ++j) of_feature += interactions[(row * side + i) * side + j];
      EXPECT_NEAR(of_feature, contributions[row * side + i], 2 * side * tolerance);
    }
    EXPECT_NEAR(sum, predictions[row], 1e-5 * std::max(1.0, std::abs(predictions[row])));
  }
}

TEST_F(SmallSpace, AFeatureWithoutEffectContributesNothing) {
  const std::vector<double> contributions = model_.contributions(features_);
  double most = 0;
  for (size_t row = 0; row < features_.rows(); ++row) {
    most = std::max(most, std::abs(contributions[row * (count + 1) + 4]));
  }
  EXPECT_LT(most, 0.2);  // of predictions from 0 to 30; trees may use it to fit what the shrunk sum still lacks
}

TEST(TreeModel, RepeatsExactly) {
  const Features features = uneven_grid({5, 4, 3});
  const std::vector<double> targets = targets_of(features, [](const float* x) { return x[0] * x[1] - x[2]; });
  const TreeModel one(features, targets), two(features, targets);
  EXPECT_EQ(one.trees(), two.trees());
  EXPECT_EQ(one.contributions(features), two.contributions(features));
}

TEST(TreeModel, OneRowIsItsOwnPrediction) {
  const Features features{.columns = 2, .values = {1, 2}};
  const TreeModel model(features, {0.0});
  EXPECT_EQ(model.predict(features), std::vector<double>{0});
  EXPECT_EQ(model.contributions(features), (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace terrace::search
