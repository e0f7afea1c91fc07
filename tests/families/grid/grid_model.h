// Predicts fields some hours ahead: at each place of a grid its variables become a vector, which passes through
// feed-forward layers; the last one gives the change of the variables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/nn/layers.h"
#include "tests/families/grid/grid_settings.h"

namespace terrace::grid {

class GridBlock : public nn::Module {
 public:
  GridBlock(const ModelConfig& config, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const models::Pass& pass) const;  // [B, L, width], as x

 private:
  nn::Norm& norm_;
  nn::Linear &first_, &second_;
};

// Batches have B samples of V variables at L places, the last dimension of `fields` being the hours ahead:
//   fields   [B, L, V + 1] fp32
//   targets  [B, L, V] fp32
//   weights  [L] fp32: of the places in the loss
class GridModel : public models::Model {
 public:
  GridModel(const ModelConfig& config, const nn::Build& build);

  int64_t num_units() const override { return config_.layers + 2; }
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override;
  models::Tensors forward(int64_t begin, int64_t end, const models::Tensors& input, const models::Batch& batch,
                          const models::Pass& pass) override;
  models::Tensors loss(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                       const models::Pass& pass) override;
  std::vector<models::LossTerm> losses() const override;
  // "forecast": [B, L, V] fp32, the normalised fields.
  models::Outputs outputs(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                          const models::Pass& pass) override;
  std::vector<models::TensorShape> output_shapes(int64_t unit, const models::Batch& batch) const override;
  at::Device device() const override { return build_.device; }

 private:
  at::Tensor forecast(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                      const models::Pass& pass);

  ModelConfig config_;
  nn::Build build_;
  nn::Linear& embedding_;
  std::vector<GridBlock*> blocks_;
  nn::Norm& norm_;
  nn::Linear& output_;
};

}  // namespace terrace::grid
