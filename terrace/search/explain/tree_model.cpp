// Calls the C interface of XGBoost, whose errors become exceptions.
#include "terrace/search/explain/tree_model.h"

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::search {
namespace {

void require_success(int result) {
  if (result != 0) throw std::runtime_error(fmt::format("XGBoost: {}", XGBGetLastError()));
}

struct MatrixDeleter {
  void operator()(void* matrix) const { XGDMatrixFree(matrix); }
};
using Matrix = std::unique_ptr<void, MatrixDeleter>;

Matrix matrix_of(const Features& features) {
  DMatrixHandle made = nullptr;
  require_success(XGDMatrixCreateFromMat_omp(features.values.data(), features.rows(), features.columns,
                                             std::numeric_limits<float>::quiet_NaN(), &made, 1));
  return Matrix(made);
}

void set_parameter(BoosterHandle booster, const char* name, const std::string& value) {
  require_success(XGBoosterSetParam(booster, name, value.c_str()));
}

void configure(BoosterHandle booster, const BoostingSettings& settings) {
  set_parameter(booster, "verbosity", "0");
  set_parameter(booster, "nthread", "1");
  set_parameter(booster, "seed", "0");
  set_parameter(booster, "booster", "gbtree");
  set_parameter(booster, "tree_method", "exact");
  set_parameter(booster, "objective", "reg:squarederror");
  set_parameter(booster, "base_score", "0");
  set_parameter(booster, "max_depth", std::to_string(settings.depth));
  set_parameter(booster, "eta", fmt::format("{}", settings.shrink));
}

// The types of predictions as XGBoosterPredictFromDMatrix numbers them.
constexpr int plain_predictions = 0, exact_contributions = 2, exact_interactions = 4;

}  // namespace

TreeModel::TreeModel(const Features& features, const std::vector<double>& targets, const BoostingSettings& settings) {
  TERRACE_CHECK(features.rows() > 0 && features.rows() == targets.size(), "{} rows of features have {} targets",
                features.rows(), targets.size());
  const Matrix matrix = matrix_of(features);
  const std::vector<float> labels(targets.begin(), targets.end());
  require_success(XGDMatrixSetFloatInfo(matrix.get(), "label", labels.data(), labels.size()));
  const DMatrixHandle trained_on = matrix.get();
  BoosterHandle made = nullptr;
  require_success(XGBoosterCreate(&trained_on, 1, &made));
  std::unique_ptr<void, int (*)(void*)> booster(made, XGBoosterFree);
  configure(made, settings);
  for (int round = 0; round < settings.rounds; ++round) {
    require_success(XGBoosterUpdateOneIter(made, round, trained_on));
  }
  booster_ = booster.release();
}

TreeModel::~TreeModel() { XGBoosterFree(booster_); }

std::vector<double> TreeModel::predict_as(int type, const Features& features) const {
  if (features.rows() == 0) return {};
  const Matrix matrix = matrix_of(features);
  const std::string config = fmt::format(
      R"({{"type": {}, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": true}})", type);
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* values = nullptr;
  require_success(XGBoosterPredictFromDMatrix(booster_, matrix.get(), config.c_str(), &shape, &dimensions, &values));
  return {values, values + std::accumulate(shape, shape + dimensions, size_t{1}, std::multiplies<>())};
}

std::vector<double> TreeModel::predict(const Features& features) const {
  return predict_as(plain_predictions, features);
}

std::vector<double> TreeModel::contributions(const Features& features) const {
  return predict_as(exact_contributions, features);
}

std::vector<double> TreeModel::interactions(const Features& features) const {
  return predict_as(exact_interactions, features);
}

std::vector<std::string> TreeModel::trees() const {
  bst_ulong count = 0;
  const char** texts = nullptr;
  require_success(XGBoosterDumpModelEx(booster_, "", 1, "json", &count, &texts));
  return {texts, texts + count};
}

}  // namespace terrace::search
