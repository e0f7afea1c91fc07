// Predictions of many structures by one model or several, in columns beside the labels, and what is judged of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "terrace/data/graphs/structures/structure.h"
#include "terrace/ensemble/judgement.h"
#include "terrace/predict/graph_predictor.h"

namespace terrace::predict {

struct DatasetRequest {
  std::vector<std::filesystem::path> models = {};  // as of GraphPredictor, at least one
  std::string data = {};                           // prefix of prepared graphs, or a file or folder of structures
  std::string dataset = {};  // of those that the models were trained on; "": by the name of `data`
  std::function<bool()> stops = [] { return false; };
};

class DatasetPrediction {
 public:
  // Throws UserError where the models have different outputs or the dataset is not one of theirs.
  explicit DatasetPrediction(DatasetRequest request);

  const std::vector<models::GraphOutput>& outputs() const { return models_.front()->outputs(); }
  std::vector<const GraphPredictor*> models() const;
  // Whether predictions have a standard deviation: those of several models, or of one that predicts its own.
  bool has_spread() const;
  // Whether the data are prepared graphs, with parts.
  bool is_prepared() const;

  // Predicts a part of the data, hands each structure with its columns to `take`, if that is given, and returns the
  // labelled values of each output. For an output NAME the columns are NAME, the mean over the models, NAME_std where
  // there is a spread, NAME_1 and so on of several models, and NAME_label where the data have a property NAME. Labels
  // and what is judged are in the units of the model, per atom where the output is. Shows progress. Throws UserError
  // where a stop is requested.
  std::vector<ensemble::JudgedOutput> run(const std::string& part,
                                          const std::function<void(const data::Structure&)>& take);

  // Figures of the latest run: the number of its structures, and the elements that no training structure had.
  int64_t structures() const { return structures_; }
  const std::set<std::string>& unknown_elements() const { return unknown_; }

 private:
  int64_t branch_of(const GraphPredictor& model) const;
  std::vector<ensemble::JudgedOutput> outputs_to_judge() const;
  std::string units_of(const models::GraphOutput& output) const;
  std::string units_of_label(const models::GraphOutput& output) const;
  double label_factor(const models::GraphOutput& output) const;
  void add(const models::GraphOutput& output, const std::vector<GraphPrediction>& members,
           std::vector<data::Structure>& structures, int64_t first, ensemble::JudgedOutput& judged) const;

  DatasetRequest request_;
  std::vector<std::unique_ptr<const GraphPredictor>> models_;
  int64_t branch_ = 0, structures_ = 0;
  std::map<std::string, double> label_factors_;
  std::set<std::string> unknown_;
};

}  // namespace terrace::predict
