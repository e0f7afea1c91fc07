// Energies, forces and other properties of structures by the model of a checkpoint, for programs that call the library
// and for terrace predict.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/data/graphs/dataset/graphs_statistics.h"
#include "terrace/data/graphs/graphs_request.h"
#include "terrace/data/graphs/structures/structure.h"
#include "terrace/data/source.h"
#include "terrace/models/graphs_of_family.h"
#include "terrace/models/model.h"

namespace terrace::predict {

// The predictions by output: the values of all structures one after another, [structures or atoms, columns], in the
// units of the data. A stress is that of the derivative by strain over the volume of the cell as it is given
// (data::volume_of()), and NaN for a structure without a volume.
struct GraphPrediction {
  std::map<std::string, std::vector<double>, std::less<>> values = {};
  // Standard deviations that the model itself predicts, of outputs that have them.
  std::map<std::string, std::vector<double>, std::less<>> deviations = {};
  // Standard deviations of what elements that no training structure had leave open, which members of an ensemble do not
  // have to disagree about; 0 without such elements.
  std::map<std::string, std::vector<double>, std::less<>> unlearned = {};
};

class GraphPredictor {
 public:
  // A checkpoint's folder, or a run's folder for its newest complete checkpoint. The model computes in fp32 on the CPU.
  // Throws UserError where there is none, or where its family predicts no properties of graphs.
  explicit GraphPredictor(const std::filesystem::path& checkpoint);

  const std::filesystem::path& checkpoint() const { return checkpoint_; }
  int64_t step() const { return step_; }
  const config::Config& config() const { return config_; }
  const std::vector<models::GraphOutput>& outputs() const { return outputs_; }
  // The units of the output, by what the data of the run declare of its label; "" where the data declare none.
  std::string units_of(const std::string& output) const;
  // data.train of the run, whose branches and offsets a structure may have.
  const std::vector<std::string>& datasets() const;

  // Structures may have any size and cell; neighbours are found here. They are computed one micro-batch after another,
  // of at most `most_atoms` atoms unless one structure has more. Throws UserError for a structure that lacks what the
  // model reads.
  GraphPrediction predict(std::span<const data::Structure> structures, int64_t branch = 0) const;
  // Symbols of elements that no training structure had: nothing was learned of them.
  std::vector<std::string> unknown_elements(std::span<const data::Structure> structures) const;

  static constexpr int64_t most_atoms = 2048;

 private:
  // Sets the stress of structures without a volume to NaN.
  void mark_without_volume(std::span<const data::Structure> structures, GraphPrediction& result) const;
  void predict_batch(std::span<const data::Structure> structures, int64_t branch, GraphPrediction& result) const;

  std::filesystem::path checkpoint_;
  int64_t step_ = 0;
  config::Config config_;
  data::GraphsRequest request_;
  data::GraphsStatistics statistics_;
  std::vector<models::GraphOutput> outputs_;
  data::TensorNames names_;
  std::unique_ptr<models::Model> model_;
};

}  // namespace terrace::predict
