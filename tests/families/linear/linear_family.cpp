// Defines the family of linear layers: its keys, its rule and its unit table.
#include "tests/families/linear/linear_family.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "terrace/config/section_keys.h"
#include "terrace/schedule/description.h"

namespace terrace::linear {
namespace {

using config::OnResume;
using schedule::LinearLayer;
using schedule::TensorCollective;
using schedule::UnitRow;

std::vector<config::Key> keys() {
  std::vector<config::Key> list;
  const config::SectionKeys model{
      "model", [](auto& config) -> decltype(auto) { return (config.model.template get<ModelConfig>()); }, list};
  model.required("layers", &ModelConfig::layers, config::Whole{1, 100}, OnResume::fixed, "2", "Pairs of products.");
  model.optional("width", &ModelConfig::width, config::Whole{1, 1000}, OnResume::fixed, "Of inputs and outputs.");
  return list;
}

std::string width_is_divisible(const config::Config& config) {
  const int64_t width = model_of(config).width, tensor = config.layout.tensor;
  if (width % tensor == 0) return "";
  return fmt::format("layout.tensor = {} does not divide model.width = {}", tensor, width);
}

// Adds a product [samples, inputs] x [inputs, outputs] of one rank to a unit, and the parameter of the whole model.
void add_product(UnitRow& row, const LinearLayer& layer, const ParamMark& mark, const schedule::UnitTableOptions& on) {
  row.parameters.push_back({row.name + "." + std::string(layer.name), mark});
  const bool reads_batch = row.name == "input";  // so that its input has no gradient
  const double flops = 2.0 * static_cast<double>(layer.rows * layer.inputs * layer.outputs * on.tensor_ranks);
  row.forward_flops += flops;
  row.input_gradient_flops += reads_batch ? 0 : flops;
  row.weight_gradient_flops += flops;
  row.counted_flops += 3 * flops;
  row.operations.forward.push_back(forward_product(layer));
  if (!reads_batch) row.operations.input_gradient.push_back(input_gradient_product(layer));
  row.operations.weight_gradient.push_back(weight_gradient_product(layer));
}

UnitRow layer_row(int64_t number, int64_t width, const schedule::UnitTableOptions& on) {
  const int64_t part = width / on.tensor_ranks, whole_bytes = on.samples * width * on.element_bytes,
                part_bytes = on.samples * part * on.element_bytes;
  UnitRow row{.name = fmt::format("layers.{}", number), .layer = number};
  LinearLayer layer{.name = "up",
                    .rows = on.samples,
                    .inputs = width,
                    .outputs = part,
                    .bias = false,
                    .element_bytes = on.element_bytes,
                    .gradient_bytes = on.gradient_bytes};
  add_product(row, layer, ParamMark::sharded({width, width}, 0, "tensor"), on);
  layer.name = "down";
  layer.inputs = part;
  layer.outputs = width;
  add_product(row, layer, ParamMark::sharded({width, width}, 1, "tensor"), on);
  // The inputs of both products, and with full recompute that of the layer.
  row.kept_bytes = {whole_bytes + part_bytes, whole_bytes + part_bytes, whole_bytes};
  row.deferred_bytes = 2 * (whole_bytes + part_bytes);
  row.output_bytes = whole_bytes;
  if (on.tensor_ranks > 1) {
    const TensorCollective sum{.kind = TensorCollective::Kind::all_reduce, .bytes = static_cast<double>(whole_bytes)};
    row.operations.forward_collectives = row.operations.backward_collectives = {sum};
  }
  return row;
}

// The first unit or the last one, whose product every tensor rank computes.
UnitRow outer_row(const std::string& name, int64_t width, const schedule::UnitTableOptions& on) {
  const int64_t bytes = on.samples * width * on.element_bytes;
  UnitRow row{.name = name};
  const LinearLayer layer{.name = "product",
                          .rows = on.samples,
                          .inputs = width,
                          .outputs = width,
                          .bias = false,
                          .element_bytes = on.element_bytes,
                          .gradient_bytes = on.gradient_bytes};
  schedule::UnitTableOptions one_rank = on;
  one_rank.tensor_ranks = 1;
  add_product(row, layer, ParamMark::replicated({width, width}), one_rank);
  if (name == "input") {
    row.kept_bytes.fill(bytes);
    row.deferred_bytes = 2 * bytes;
    row.output_bytes = bytes;
  } else {
    row.temporary_bytes = 2 * bytes;  // the outputs and their gradients
  }
  return row;
}

class LinearDescription : public schedule::Description {
 public:
  schedule::UnitTable unit_table(const config::Config& config,
                                 const schedule::UnitTableOptions& options) const override {
    const ModelConfig& model = model_of(config);
    schedule::UnitTable table = {outer_row("input", model.width, options)};
    for (int64_t layer = 0; layer < model.layers; ++layer) table.push_back(layer_row(layer, model.width, options));
    table.push_back(outer_row("output", model.width, options));
    return table;
  }
};

}  // namespace

const config::Family& planned_family() {
  static const LinearDescription description;
  static const config::Family family{
      .name = "linear",
      .about = "Linear layers, for the tests of planning.",
      .settings = {.model = config::FamilySettings::of(ModelConfig{}),
                   .keys = keys(),
                   .rules = {{{"layout.tensor"}, width_is_divisible}},
                   .layers = [](const config::Config& config) { return model_of(config).layers; }},
      .description = &description};
  return family;
}

}  // namespace terrace::linear
