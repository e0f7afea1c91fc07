// The units of the model, and the table that describes them.
#include "tests/families/pair/model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "terrace/layers/unit_trace.h"
#include "terrace/ops/loss/loss_term.h"

namespace terrace::pair {
namespace {

constexpr int64_t narrow_width = 3;

nn::InitialValue initial_of(const ModelConfig& config) {
  if (config.initial == "uniform") return nn::InitialValue::uniform(-0.5, 0.5);
  if (config.initial == "truncated") return nn::InitialValue::truncated_normal(0.3);
  if (config.initial == "normal") return nn::InitialValue::normal(0.3);
  return nn::InitialValue::table([](int64_t begin, int64_t end) {
    return at::arange(begin, end, at::TensorOptions(at::kDouble)).mul(0.7).sin().mul(0.5);
  });
}

int64_t narrow_inputs(const ModelConfig& config, int64_t layer) { return layer == 0 ? config.width : narrow_width; }

}  // namespace

PairModel::PairModel(const ModelConfig& config, const nn::Build& build)
    : config_(config),
      build_(build),
      features_(add("features", features_per_item, config.width, build)),
      scale_(add_scale()),
      layers_(add_layers()),
      output_(add("output", config.width, 1, build)) {}

nn::Linear& PairModel::add(const std::string& name, int64_t inputs, int64_t outputs, const nn::Build& build) {
  return add_module<nn::Linear>(name, inputs, outputs, /*bias=*/true, initial_of(config_), build);
}

nn::Buffer* PairModel::add_scale() {
  if (!config_.buffers) return nullptr;
  const at::Tensor table = at::arange(features_per_item, at::TensorOptions(at::kDouble)).mul(0.125).add(0.75);
  return &add_buffer("scale", {features_per_item}, nn::InitialValue::table(table), build_);
}

std::vector<PairModel::Layer> PairModel::add_layers() {
  std::vector<Layer> layers;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const nn::Build narrow = config_.fp32_narrow ? build_.in_fp32() : build_;
    layers.push_back(
        {.wide = &add(fmt::format("layers.{}.wide", layer), config_.width, config_.width, build_),
         .narrow = &add(fmt::format("layers.{}.narrow", layer), narrow_inputs(config_, layer), narrow_width, narrow),
         .passes = config_.buffers ? &add_buffer(fmt::format("layers.{}.passes", layer), {config_.width},
                                                 nn::InitialValue::uniform(0, 0.5), build_)
                                   : nullptr});
  }
  return layers;
}

at::Tensor PairModel::features_of(const models::Batch& batch) const {
  const at::Tensor& features = batch["features"];
  return (scale_ == nullptr ? features : features.mul(scale_->value)).to(build_.type);
}

// A repeated forward has been counted.
void PairModel::count_pass(const nn::Buffer& passes, const models::Pass& pass) const {
  if (!pass.training || pass.repeated) return;
  const at::NoGradGuard no_grad;
  passes.value.mul_(0.75).add_(0.25 * static_cast<double>(pass.step));
}

std::vector<nn::Buffer*> PairModel::unit_buffers(int64_t unit) {
  if (!config_.buffers || unit + 1 == num_units()) return {};
  return {unit == 0 ? scale_ : layers_.at(static_cast<size_t>(unit - 1)).passes};
}

std::vector<nn::Parameter*> PairModel::unit_parameters(int64_t unit) {
  if (unit == 0) return features_.parameters();
  if (unit + 1 == num_units()) return output_.parameters();
  const Layer& layer = layers_.at(static_cast<size_t>(unit - 1));
  std::vector<nn::Parameter*> list = layer.wide->parameters();
  for (nn::Parameter* parameter : layer.narrow->parameters()) list.push_back(parameter);
  return list;
}

models::Tensors PairModel::forward(int64_t begin, int64_t end, const models::Tensors& input, const models::Batch& batch,
                                   const models::Pass& pass) {
  models::Tensors x = input;
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == 0) {
      x = {features_.forward(features_of(batch), pass.deferred), batch["owner"]};
      continue;
    }
    const auto& [wide, narrow, passes] = layers_[static_cast<size_t>(unit - 1)];
    at::Tensor hidden = x[0].add(wide->forward(x[0], pass.deferred));  // [I, width]
    if (passes != nullptr) {
      count_pass(*passes, pass);
      if (!pass.training) hidden = hidden.add(passes->value.to(build_.type), 0.01);
    }
    if (unit == 1) {
      x = {hidden, narrow->forward(x[0].to(narrow->weight.value.scalar_type()), pass.deferred), x[1]};
    } else {
      x = {hidden, x[1].add(narrow->forward(x[1], pass.deferred)), x[2]};
    }
  }
  return x;
}

// The largest of these numbers, and -infinity where there is none.
static at::Tensor largest_of(const at::Tensor& numbers) {
  const at::Tensor lowest = at::full({1, 1}, -std::numeric_limits<float>::infinity(), numbers.options());
  return at::cat({numbers, lowest}).max().to(at::kFloat);
}

// The sums of the squares and of the sizes of the errors, each item weighted by the size of its target.
static at::Tensor weighted_sums(const at::Tensor& error, const models::Batch& batch) {
  const at::Tensor weight = batch["targets"].abs();
  const at::Tensor errors = error.to(at::kFloat);
  return at::stack({errors.square().mul(weight).sum(), errors.abs().mul(weight).sum()});
}

models::Tensors PairModel::loss(int64_t, const models::Tensors& input, const models::Batch& batch,
                                const models::Pass& pass) {
  const at::Tensor error = output_.forward(input[0]).sub(batch["targets"].to(build_.type));  // [I, 1]
  const int64_t samples = batch.samples.size(0);
  const at::Tensor by_sample =
      at::zeros({samples, narrow_width}, input[1].options()).index_add(0, input[2], input[1]);  // [N, 3]
  return {ops::loss_term(error.square().sum(), pass.gradient_scales.at(0)),
          ops::loss_term(by_sample.square().sum(), pass.gradient_scales.at(1)),
          ops::loss_term(error.abs().sum(), pass.gradient_scales.at(2)), largest_of(error.detach().abs()),
          weighted_sums(error.detach(), batch)};
}

models::Outputs PairModel::outputs(int64_t begin, const models::Tensors& input, const models::Batch& batch,
                                   const models::Pass& pass) {
  const models::Tensors x = begin + 1 == num_units() ? input : forward(begin, num_units() - 1, input, batch, pass);
  return {{"prediction", output_.forward(x[0]).detach().to(at::kFloat)}};
}

std::vector<models::LossTerm> PairModel::losses() const {
  return {{"item", 1.0},
          {"sample", config_.sample_weight},
          {"absolute", 0.0},
          {.name = "largest", .weight = 0.0, .combine = models::Combine::largest},
          {.name = "weighted", .weight = 0.0, .numbers = 2}};
}

std::vector<models::TensorShape> PairModel::output_shapes(int64_t unit, const models::Batch& batch) const {
  const int64_t items = batch.sizes.at("items");
  std::vector<models::TensorShape> shapes = {{.sizes = {items, config_.width}, .type = build_.type}};
  const at::ScalarType narrow = config_.fp32_narrow ? build_.in_fp32().type : build_.type;
  if (unit > 0) shapes.push_back({.sizes = {items, narrow_width}, .type = narrow});
  shapes.push_back({.sizes = {items}, .type = at::kLong});
  return shapes;
}

schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options) {
  using layers::UnitTrace;
  using layers::Value;
  schedule::UnitTable table;
  const int64_t items = options.sizes.at("items");
  // Sums of two tensors [items, columns], in the forward or of gradients.
  const auto sums = [&](int64_t columns, int64_t count) {
    const auto bytes = static_cast<double>(3 * count * items * columns * options.element_bytes);
    return schedule::memory_pass("sum", bytes, count);
  };
  UnitTrace features(options, {.name = "features"});
  features.row().batch_tensors = {"features", "owner"};
  features.output(
      features.linear("features", features.data(items, features_per_item), config.width, {.operation = "features"}));
  if (config.buffers) features.row().buffers = {{"scale", {features_per_item}}};
  features.set_temporary(0);
  table.push_back(features.finished());
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    UnitTrace unit(options, {.name = fmt::format("layers.{}", layer), .layer = layer});
    unit.row().batch_tensors = {"owner"};
    // The first narrow branch reads a copy of the wide one in its own type.
    const Value wide = unit.given(items, config.width), narrow = unit.given(items, narrow_inputs(config, layer));
    const std::string name = fmt::format("layers.{}.", layer);
    unit.output(unit.linear(name + "wide", wide, config.width, {.operation = "wide"}));
    unit.output(
        unit.linear(name + "narrow", narrow, narrow_width, {.operation = "narrow", .always_fp32 = config.fp32_narrow}));
    if (config.buffers) unit.row().buffers = {{name + "passes", {config.width}}};
    unit.set_temporary(0);
    schedule::Operations& operations = unit.operations();
    operations.forward.push_back(sums(config.width, 1));
    operations.input_gradient.push_back(sums(config.width, layer == 0 ? 2 : 1));
    if (layer > 0) {
      operations.forward.push_back(sums(narrow_width, 1));
      operations.input_gradient.push_back(sums(narrow_width, 1));
    }
    table.push_back(unit.finished());
  }
  UnitTrace output(options, {.name = "output"});
  output.row().batch_tensors = {"targets", "owner"};
  output.linear("output", output.given(items, config.width), 1, {.operation = "output"});
  // About three passes over the errors and over the narrow branch for each of the losses, and as many in backward.
  const auto loss_bytes = static_cast<double>(9 * items * (1 + narrow_width) * options.element_bytes);
  output.operations().forward.push_back(schedule::memory_pass("loss", loss_bytes, 9));
  output.operations().input_gradient.push_back(schedule::memory_pass("loss gradient", loss_bytes, 9));
  output.set_temporary(0);
  output.set_last();
  table.push_back(output.finished());
  return table;
}

}  // namespace terrace::pair
