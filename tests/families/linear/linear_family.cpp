// Defines the family of linear layers: its keys, its rule and its unit table.
#include "tests/families/linear/linear_family.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "terrace/config/section_keys.h"
#include "terrace/layers/unit_trace.h"
#include "terrace/schedule/description.h"

namespace terrace::linear {
namespace {

using config::OnResume;
using layers::UnitTrace;
using layers::Value;
using layers::WeightCut;
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

UnitRow layer_row(int64_t number, int64_t width, const schedule::UnitTableOptions& on) {
  const std::string name = fmt::format("layers.{}", number);
  UnitTrace unit(on, {.name = name, .prefix = name + ".", .layer = number});
  const Value up =
      unit.linear("up", unit.hidden(width), width, {.operation = "up", .bias = false, .cut = WeightCut::outputs});
  unit.output(unit.linear("down", up, width, {.operation = "down", .bias = false, .cut = WeightCut::inputs}));
  unit.set_temporary(0);
  return unit.finished();
}

// The first unit or the last one, whose product every tensor rank computes.
UnitRow outer_row(const std::string& name, int64_t width, const schedule::UnitTableOptions& on) {
  UnitTrace unit(on, {.name = name, .prefix = name + "."});
  const bool is_first = name == "input";
  const Value x = is_first ? unit.data(on.samples, width) : unit.hidden(width);
  unit.output(unit.linear("product", x, width, {.operation = "product", .bias = false}));
  if (is_first) {
    unit.set_temporary(0);
  } else {
    unit.set_last();
  }
  return unit.finished();
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
