// A model as different from a GPT as the interface allows: floating-point inputs, two or three tensors between units,
// one of them of integers, sizes that change from micro-batch to micro-batch and may be 0, and two losses with counts
// of their own, beside a figure that is only reported.
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/nn/layers.h"
#include "terrace/schedule/unit_table.h"
#include "tests/families/pair/config.h"

namespace terrace::pair {

constexpr int64_t features_per_item = 6;

// A model for tests. Its batches have N samples with I items in all:
//   features  [I, 6] fp32
//   targets   [I, 1] fp32
//   owner     [I] int64: the sample in the batch that the item belongs to
// With buffers each layer has a running mean of the numbers of the steps in which it computed a micro-batch, which are
// the same on all ranks, and which it adds to its output where it is not trained.
// The tensors that pass from unit to unit are the items' hidden states [I, width], after the first layer also a narrow
// branch [I, 3], and owner.
class PairModel : public models::Model {
 public:
  PairModel(const ModelConfig& config, const nn::Build& build);

  int64_t num_units() const override { return config_.layers + 2; }
  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override;
  std::vector<nn::Buffer*> unit_buffers(int64_t unit) override;
  models::Tensors forward(int64_t begin, int64_t end, const models::Tensors& input, const models::Batch& batch,
                          const models::Pass& pass) override;
  models::Tensors loss(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                       const models::Pass& pass) override;
  std::vector<models::LossTerm> losses() const override;
  // "prediction": [I, 1] fp32.
  models::Outputs outputs(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                          const models::Pass& pass) override;
  std::vector<models::TensorShape> output_shapes(int64_t unit, const models::Batch& batch) const override;
  at::Device device() const override { return build_.device; }

 private:
  struct Layer {
    nn::Linear* wide;
    nn::Linear* narrow;
    nn::Buffer* passes;  // [width], null without buffers
  };

  nn::Linear& add(const std::string& name, int64_t inputs, int64_t outputs, const nn::Build& build);
  nn::Buffer* add_scale();
  std::vector<Layer> add_layers();
  at::Tensor features_of(const models::Batch& batch) const;
  void count_pass(const nn::Buffer& passes, const models::Pass& pass) const;

  ModelConfig config_;
  nn::Build build_;
  nn::Linear& features_;
  nn::Buffer* scale_;  // [6], null without buffers
  std::vector<Layer> layers_;
  nn::Linear& output_;
};

schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options);

}  // namespace terrace::pair
