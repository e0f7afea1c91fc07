// A model that is not a transformer: a stack of linear layers of odd width whose inputs are the tokens' numbers. With
// integer weights, the first gradient is exact in any order of summation.
#pragma once

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/models/model.h"
#include "terrace/nn/layers.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::parallel {

// The sum in forward, multiplied by a number in backward, as Model::loss requires.
class Scaled : public torch::autograd::Function<Scaled> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& sum, double scale) {
    context->saved_data["scale"] = scale;
    return sum.clone();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0].mul(context->saved_data["scale"].toDouble()), {}};
  }
};

class LinearStack : public models::Model {
 public:
  // The model takes sequences of `inputs` tokens and has `layers` layers of `width` outputs; the loss is the sum of the
  // last layer's outputs. With tied weights, the last layer uses the weights of the layer before it. With an `inner`
  // width, the first layer and every second layer after it have `inner` outputs and may be cut by outputs, and the
  // layers between by inputs.
  LinearStack(int64_t inputs, int64_t width, int64_t layers, bool whole_numbers, bool tied, const nn::Build& build,
              int64_t inner = 0)
      : type_(build.type), tied_(tied) {
    const auto initial = whole_numbers ? nn::InitialValue::constant(1.0) : nn::InitialValue::normal(0.3);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const int64_t wide = inner > 0 ? inner : width, from = layer == 0 ? inputs : layer % 2 == 0 ? width : wide;
      layers_.push_back(&add_module<nn::Linear>(fmt::format("layers.{}", layer), from, layer % 2 == 0 ? wide : width,
                                                /*bias=*/true, initial, build));
    }
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (nn::Parameter* parameter : layers_[layer]->parameters()) {
        const std::vector<int64_t> shape = parameter->value.sizes().vec();
        const bool cut = inner > 0 && (layer % 2 == 0 || shape.size() == 2);
        parameter->mark = cut ? ParamMark::sharded(shape, layer % 2, "tensor") : ParamMark::replicated(shape);
      }
    }
  }

  int64_t num_units() const override { return static_cast<int64_t>(layers_.size()) + 1; }

  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override {
    return unit + 1 < num_units() ? layers_[unit]->parameters() : std::vector<nn::Parameter*>{};
  }

  schedule::UnitTable table() {
    schedule::UnitTable rows;
    for (int64_t unit = 0; unit < num_units(); ++unit) {
      const bool last = unit + 1 == num_units();
      schedule::UnitRow& row = rows.emplace_back();
      row.name = last ? "sum" : fmt::format("layers.{}", unit);
      row.layer = last ? -1 : unit;
      row.forward_flops = last ? 0 : 1;
      if (last && tied_) row.reads_also = {unit - 1};
      for (const nn::Parameter* parameter : unit_parameters(unit)) {
        row.parameters.push_back({parameter->name, parameter->mark});
      }
    }
    return rows;
  }

  models::Tensors forward(int64_t begin, int64_t end, const models::Tensors& input, const models::Batch& batch,
                          const models::Pass&) override {
    at::Tensor x = begin == 0 ? numbers_of(batch["tokens"]) : input.front();  // [B, width]
    for (int64_t unit = begin; unit < end; ++unit) x = layers_.at(static_cast<size_t>(unit))->forward(x);
    return {x};
  }

  models::Tensors loss(int64_t, const models::Tensors& input, const models::Batch& batch,
                       const models::Pass& pass) override {
    at::Tensor output = input.front();
    if (tied_) output = layers_.back()->forward(output);
    // Outputs are weighted by targets, so that their gradients differ.
    const at::Tensor counts = numbers_of(batch["targets"].narrow(1, 0, 1));  // [B, 1]
    const at::Tensor sum = output.mul(counts).sum().to(at::kFloat);
    return {Scaled::apply(sum, pass.gradient_scales.front())};
  }

  std::vector<models::TensorShape> output_shapes(int64_t unit, const models::Batch& batch) const override {
    return {{.sizes = {batch["tokens"].size(0), local_shape(layers_.at(static_cast<size_t>(unit))->weight.mark)[0]},
             .type = type_}};
  }
  at::Device device() const override { return at::kCPU; }

 private:
  // Small integers, so that fp32 represents every sum in the tests exactly.
  at::Tensor numbers_of(const at::Tensor& tokens) const { return tokens.remainder(4).to(type_); }

  at::ScalarType type_;
  bool tied_;
  std::vector<nn::Linear*> layers_;
};

}  // namespace terrace::parallel
