// Gradient-boosted regression trees with exact TreeSHAP values, by XGBoost: Chen and Guestrin, "XGBoost: A scalable
// tree boosting system", KDD 2016; Lundberg et al., "From local explanations to global understanding with explainable
// AI for trees", Nature Machine Intelligence 2, 2020.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace terrace::search {

// Rows of as many values, one row after the other.
struct Features {
  size_t columns = 0;
  std::vector<float> values = {};  // [rows, columns]

  size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
};

struct BoostingSettings {
  int rounds = 60;
  int depth = 6;        // cuts between the root and a leaf, and so the most features that act together in a tree
  double shrink = 0.2;  // the share of each tree that is added
};

class TreeModel {
 public:
  // One thread and every cut point tried, so the same numbers give the same trees. Targets should be of the order of 1:
  // leaves are penalised by the square of their values. At least one row and one column.
  TreeModel(const Features& features, const std::vector<double>& targets, const BoostingSettings& settings = {});
  TreeModel(const TreeModel&) = delete;
  ~TreeModel();

  // The predictions by row.
  std::vector<double> predict(const Features& features) const;

  // TreeSHAP values, [rows, columns + 1]: a feature's share of the prediction, and last the base value, which is the
  // same in all rows. A row's sum is its prediction. A feature that is not known follows both branches of its cuts,
  // each with the share of the training rows that went there ("tree_path_dependent").
  std::vector<double> contributions(const Features& features) const;

  // TreeSHAP interaction values, [rows, columns + 1, columns + 1]: symmetric, and the sum over the last dimension is
  // the contribution. The diagonal is what a feature contributes alone.
  std::vector<double> interactions(const Features& features) const;

  // The trees as JSON, with the number of training rows at each node ("cover").
  std::vector<std::string> trees() const;

 private:
  std::vector<double> predict_as(int type, const Features& features) const;

  void* booster_ = nullptr;
};

}  // namespace terrace::search
