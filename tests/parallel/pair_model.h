// A third model, as far from a GPT as the interface allows: floating-point inputs, two or three tensors between units,
// one of them of integers, sizes that change from micro-batch to micro-batch and may be 0, and two losses with counts
// of their own.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "terrace/base/random.h"
#include "tests/parallel/linear_stack.h"

namespace terrace::parallel {

class PairModel : public models::Model {
 public:
  explicit PairModel(const nn::Build& build)
      : type_(build.type),
        features_(add("features", 6, 8, build)),
        first_(add("first", 8, 8, build)),
        split_(add("split", 8, 3, build)),
        second_(add("second", 8, 8, build)),
        narrow_(add("narrow", 3, 3, build)),
        output_(add("output", 8, 1, build)) {
    for (nn::Parameter* parameter : parameters()) {
      parameter->mark = ParamMark::replicated(parameter->value.sizes().vec());
    }
  }

  // Of `count` samples from the `first` one on. The first three have no items, others up to three.
  static models::Batch batch(int64_t step, int64_t first, int64_t count) {
    std::vector<int64_t> owners, places;  // of items: the sample in the batch, and which of its items
    for (int64_t sample = 0; sample < count; ++sample) {
      const int64_t number = first + sample;
      for (int64_t place = 0; place < (number < 3 ? 0 : (number + step) % 4); ++place) {
        owners.push_back(sample);
        places.push_back(place);
      }
    }
    const auto items = static_cast<int64_t>(owners.size());
    models::Batch batch{.samples = at::arange(first, first + count, at::kLong), .counts = {items, count}};
    at::Tensor features = at::empty({items, 6}, at::kFloat), targets = at::empty({items, 1}, at::kFloat);
    at::Tensor owner = at::empty({items}, at::kLong);
    std::ranges::copy(owners, owner.mutable_data_ptr<int64_t>());
    for (int64_t item = 0; item < items; ++item) {
      const auto of_sample = static_cast<uint64_t>(first + owners[static_cast<size_t>(item)]);
      const PhiloxBlock draw = philox_at({static_cast<uint32_t>(step), 11}, of_sample,
                                         static_cast<uint64_t>(places[static_cast<size_t>(item)]));
      for (int64_t column = 0; column < 6; ++column) {
        features[item][column] = static_cast<double>(draw[static_cast<size_t>(column % 4)] % 17) / 8.0 - 1.0;
      }
      targets[item][0] = static_cast<double>(draw[3] % 5);
    }
    batch.tensors = {{"features", features}, {"targets", targets}, {"owner", owner}};
    return batch;
  }

  int64_t num_units() const override { return 4; }

  std::vector<nn::Parameter*> unit_parameters(int64_t unit) override {
    const std::vector<std::vector<nn::Linear*>> layers = {
        {&features_}, {&first_, &split_}, {&second_, &narrow_}, {&output_}};
    std::vector<nn::Parameter*> list;
    for (nn::Linear* layer : layers.at(static_cast<size_t>(unit))) {
      for (nn::Parameter* parameter : layer->parameters()) list.push_back(parameter);
    }
    return list;
  }

  schedule::UnitTable table() {
    schedule::UnitTable rows;
    for (int64_t unit = 0; unit < num_units(); ++unit) {
      schedule::UnitRow& row = rows.emplace_back();
      row.name = fmt::format("units.{}", unit);
      row.layer = unit == 1 || unit == 2 ? unit : -1;
      row.forward_flops = 1;
      for (const nn::Parameter* parameter : unit_parameters(unit)) {
        row.parameters.push_back({parameter->name, parameter->mark});
      }
    }
    return rows;
  }

  models::Tensors forward(int64_t begin, int64_t end, const models::Tensors& input, const models::Batch& batch,
                          const models::Pass& pass) override {
    models::Tensors x = input;
    for (int64_t unit = begin; unit < end; ++unit) {
      if (unit == 0) {
        x = {features_.forward(batch["features"].to(type_), pass.deferred), batch["owner"]};
      } else if (unit == 1) {
        x = {x[0].add(first_.forward(x[0], pass.deferred)), split_.forward(x[0], pass.deferred), x[1]};
      } else {
        x = {second_.forward(x[0], pass.deferred), x[1].add(narrow_.forward(x[1], pass.deferred)), x[2]};
      }
    }
    return x;
  }

  models::Tensors loss(int64_t, const models::Tensors& input, const models::Batch& batch,
                       const models::Pass& pass) override {
    const at::Tensor by_item = output_.forward(input[0]).sub(batch["targets"].to(type_)).square().sum();
    const int64_t samples = batch.samples.size(0);
    const at::Tensor by_sample = at::zeros({samples, 3}, input[1].options()).index_add(0, input[2], input[1]);
    return {Scaled::apply(by_item.to(at::kFloat), pass.gradient_scales.at(0)),
            Scaled::apply(by_sample.square().sum().to(at::kFloat), pass.gradient_scales.at(1))};
  }

  std::vector<models::LossTerm> losses() const override { return {{"item", 1.0}, {"sample", 0.25}}; }

  std::vector<models::TensorShape> output_shapes(int64_t unit, const models::Batch& batch) const override {
    const int64_t items = batch["owner"].size(0);
    std::vector<models::TensorShape> shapes = {{.sizes = {items, 8}, .type = type_}};
    if (unit > 0) shapes.push_back({.sizes = {items, 3}, .type = type_});
    shapes.push_back({.sizes = {items}, .type = at::kLong});
    return shapes;
  }

  at::Device device() const override { return at::kCPU; }

 private:
  nn::Linear& add(const char* name, int64_t inputs, int64_t outputs, const nn::Build& build) {
    return add_module<nn::Linear>(name, inputs, outputs, /*bias=*/true, nn::InitialValue::normal(0.3), build);
  }

  at::ScalarType type_;
  nn::Linear &features_, &first_, &split_, &second_, &narrow_, &output_;
};

}  // namespace terrace::parallel
