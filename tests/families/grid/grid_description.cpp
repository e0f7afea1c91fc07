// The parts of the family that need no torch: its keys and rules, unit table and figures.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "terrace/config/section_keys.h"
#include "terrace/layers/unit_trace.h"
#include "terrace/observe/figures.h"
#include "terrace/schedule/description.h"
#include "tests/families/grid/grid_family.h"
#include "tests/families/grid/grid_settings.h"

namespace terrace::grid {
namespace {

using config::Config;
using config::OnResume;
using layers::UnitTrace;
using layers::Value;
using layers::WeightCut;

std::vector<config::Key> keys() {
  using M = ModelConfig;
  using D = DataConfig;
  std::vector<config::Key> list;
  const config::SectionKeys model{
      "model", [](auto& config) -> decltype(auto) { return (config.model.template get<ModelConfig>()); }, list};
  model.required("variables", &M::variables, config::Texts{}, OnResume::fixed, "[\"u\", \"v\"]",
                 "Names of the variables.");
  model.required("latitudes", &M::latitudes, config::Whole{1, 1000}, OnResume::fixed, "4", "Rows of the grid.");
  model.required("longitudes", &M::longitudes, config::Whole{1, 1000}, OnResume::fixed, "6", "Columns of the grid.");
  model.required("layers", &M::layers, config::Whole{1, 100}, OnResume::fixed, "2", "Feed-forward layers.");
  model.optional("width", &M::width, config::Whole{1, 1000}, OnResume::fixed, "Of the hidden states.");
  model.optional("weights", &M::weights, config::NumbersByName{}, OnResume::may_change, "Of variables in the loss.");
  const config::SectionKeys data{
      "data", [](auto& config) -> decltype(auto) { return (config.data.template get<DataConfig>()); }, list};
  data.required("fields", &D::fields, config::Text{}, OnResume::names_fixed, "\"data/winds\"", "A prepared dataset.");
  data.optional("statistics", &D::statistics, config::Text{.may_be_empty = true}, OnResume::may_change,
                "The file with means and deviations; if empty, that of the dataset.");
  data.optional("leads", &D::leads, config::Durations{}, OnResume::fixed, "How far ahead forecasts are.");
  data.optional("held_out", &D::held_out, config::share, OnResume::fixed, "Share of the starts.");
  return list;
}

std::string heads_fit(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.hidden() % c.layout.tensor == 0) return "";
  return fmt::format("layout.tensor = {} does not divide the {} hidden units of a layer", c.layout.tensor,
                     model.hidden());
}

std::string places_fit(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (!c.layout.sequence_parallel || model.places() % c.layout.tensor == 0) return "";
  return fmt::format("layout.sequence_parallel with layout.tensor = {} does not divide the {} places of the grid",
                     c.layout.tensor, model.places());
}

std::string weights_are_of_variables(const Config& c) {
  const ModelConfig& model = model_of(c);
  for (const auto& [name, weight] : model.weights) {
    if (std::ranges::find(model.variables, name) != model.variables.end()) continue;
    return fmt::format("model.weights has \"{}\", which is none of model.variables = [{}]", name,
                       fmt::join(model.variables, ", "));
  }
  return "";
}

class GridDescription : public schedule::Description {
 public:
  schedule::UnitTable unit_table(const Config& c, const schedule::UnitTableOptions& options) const override {
    const ModelConfig& config = model_of(c);
    const int64_t variables = std::ssize(config.variables), places = config.places(), rows = options.samples * places;
    schedule::UnitTable table;
    UnitTrace embedding(options, {.name = "embedding", .positions = places});
    embedding.row().batch_tensors = {"fields"};
    embedding.output(embedding.linear("embedding", embedding.data(rows, variables + 1), config.width, {}));
    table.push_back(embedding.finished());

    for (int64_t i = 0; i < config.layers; ++i) {
      const std::string name = fmt::format("blocks.{}", i);
      UnitTrace unit(options, {.name = name, .prefix = name + ".", .layer = i, .positions = places});
      const Value x = unit.hidden(config.width);
      const Value y = unit.norm("norm", x, {});
      const Value first = unit.linear("first", y, config.hidden(), {.cut = WeightCut::outputs});
      const Value inner = unit.activation(first, layers::Activation::gelu, /*in_product=*/true);
      unit.output(unit.add(x, unit.linear("second", inner, config.width, {.cut = WeightCut::inputs})));
      table.push_back(unit.finished());
    }

    UnitTrace output(options, {.name = "output", .positions = places});
    output.row().batch_tensors = {"fields", "targets", "weights"};
    const Value change = output.linear("output", output.norm("norm", output.hidden(config.width), {}), variables, {});
    output.gather_rows(change, options.element_bytes);
    const auto loss_bytes = static_cast<double>(6 * rows * variables * 4);
    output.operations().forward.push_back(schedule::memory_pass("loss", loss_bytes, 6));
    output.operations().input_gradient.push_back(schedule::memory_pass("loss gradient", loss_bytes, 6));
    output.set_last();
    table.push_back(output.finished());
    return table;
  }
  schedule::SampleSizes sample_sizes(const Config& config) const override {
    const int64_t places = model_of(config).places();
    return {.average = {{"places", static_cast<double>(places)}}, .largest = {{"places", places}}};
  }
};

class GridFigures : public observe::Figures {
 public:
  std::string loss_unit(const Config&) const override { return "squared deviations"; }
  std::vector<observe::Figure> list(const Config& config) const override {
    std::vector<observe::Figure> figures;
    const std::vector<std::string>& variables = model_of(config).variables;
    for (size_t i = 0; i < variables.size(); ++i) {
      figures.push_back({.name = "rmse_" + variables[i], .unit = "deviations", .value = observe::root_mean_of(1, i)});
    }
    figures.push_back({.name = "largest_error", .unit = "deviations", .value = observe::number_of(3)});
    // 1 minus the share of the squared error of persistence that is left.
    figures.push_back({.name = "skill",
                       .better = observe::Better::higher,
                       .in_steps = false,
                       .value = [](const observe::TermSums& sums) {
                         double ours = 0, persistence = 0;
                         for (const double sum : sums.at(1).values) ours += sum;
                         for (const double sum : sums.at(2).values) persistence += sum;
                         return 1 - ours / persistence;
                       }});
    return figures;
  }
};

void shrink(Config& config) {
  auto& model = config.model.get<ModelConfig>();
  model.width = std::min<int64_t>(model.width, 12);
  model.layers = std::min(model.layers, std::max<int64_t>(2, config.layout.pipeline * config.layout.chunks - 1));
}

}  // namespace

const config::Family& planned_family() {
  static const GridDescription description;
  static const GridFigures figures;
  static const config::Family family{
      .name = "grid",
      .about = "Forecasts on a grid, for the tests.",
      .samples = "fields",
      .items = "places",
      .settings = {.model = config::FamilySettings::of(ModelConfig{}),
                   .data = config::FamilySettings::of(DataConfig{}),
                   .keys = keys(),
                   .rules = {{{"layout.tensor", "model.width"}, heads_fit},
                             {{"layout.sequence_parallel", "layout.tensor"}, places_fit},
                             {{"model.weights"}, weights_are_of_variables}},
                   .layers = [](const Config& config) { return model_of(config).layers; },
                   .shrink = shrink},
      .description = &description,
      .figures = &figures};
  return family;
}

}  // namespace terrace::grid
