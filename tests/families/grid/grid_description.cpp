// The parts of the family that need no torch: its keys and rules, unit table and figures.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "terrace/config/section_keys.h"
#include "terrace/observe/figures.h"
#include "terrace/schedule/description.h"
#include "tests/families/grid/grid_family.h"
#include "tests/families/grid/grid_settings.h"

namespace terrace::grid {
namespace {

using config::Config;
using config::OnResume;

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
    const int64_t variables = std::ssize(config.variables), rows = options.samples * config.places();
    const int64_t own = rows / (options.sequence_parallel ? options.tensor_ranks : 1);
    const int64_t hidden_bytes = own * config.width * options.element_bytes;
    schedule::UnitTable table;
    const auto layer = [&](std::string_view name, int64_t of_rows, int64_t inputs, int64_t outputs) {
      return schedule::LinearLayer{.name = name,
                                   .rows = of_rows,
                                   .inputs = inputs,
                                   .outputs = outputs,
                                   .element_bytes = options.element_bytes,
                                   .gradient_bytes = options.gradient_bytes};
    };
    // Of a whole layer on all tensor ranks, and the products of this rank's part.
    const auto add = [&](const schedule::LinearLayer& whole, const schedule::LinearLayer& part,
                         bool has_input_gradient) {
      schedule::UnitRow& row = table.back();
      const double flops = 2.0 * static_cast<double>(rows * whole.inputs * whole.outputs);
      row.forward_flops += flops;
      row.input_gradient_flops += has_input_gradient ? flops : 0;
      row.weight_gradient_flops += flops;
      row.counted_flops += 3 * flops;
      row.operations.forward.push_back(forward_product(part));
      if (has_input_gradient) row.operations.input_gradient.push_back(input_gradient_product(part));
      row.operations.weight_gradient.push_back(weight_gradient_product(part));
      row.operations.weight_gradient.push_back(bias_gradient_sums(part, part.rows));
    };
    const auto linear = [&](const std::string& name, int64_t inputs, int64_t outputs) {
      table.back().parameters.push_back({name + ".weight", ParamMark::replicated({outputs, inputs})});
      table.back().parameters.push_back({name + ".bias", ParamMark::replicated({outputs})});
    };
    const auto norm = [&](const std::string& name) {
      table.back().parameters.push_back({name + ".weight", ParamMark::replicated({config.width})});
      table.back().parameters.push_back({name + ".bias", ParamMark::replicated({config.width})});
      const auto bytes = static_cast<double>(2 * hidden_bytes);
      table.back().operations.forward.push_back(schedule::memory_pass("norm", bytes));
      table.back().operations.input_gradient.push_back(schedule::memory_pass("norm gradient", 1.5 * bytes));
    };

    table.push_back({.name = "embedding", .batch_tensors = {"fields"}});
    linear("embedding", variables + 1, config.width);
    const auto embedding = layer("embedding", own, variables + 1, config.width);
    add(embedding, embedding, false);
    table.back().kept_bytes.fill(own * (variables + 1) * options.element_bytes);
    table.back().output_bytes = hidden_bytes;

    const int64_t hidden = config.hidden(), own_hidden = hidden / options.tensor_ranks;
    for (int64_t i = 0; i < config.layers; ++i) {
      const std::string name = fmt::format("blocks.{}", i);
      table.push_back({.name = name, .layer = i});
      norm(name + ".norm");
      schedule::UnitRow& row = table.back();
      row.parameters.push_back({name + ".first.weight", ParamMark::sharded({hidden, config.width}, 0, "tensor")});
      row.parameters.push_back({name + ".first.bias", ParamMark::sharded({hidden}, 0, "tensor")});
      row.parameters.push_back({name + ".second.weight", ParamMark::sharded({config.width, hidden}, 1, "tensor")});
      row.parameters.push_back({name + ".second.bias", ParamMark::replicated({config.width})});
      add(layer("first", rows, config.width, hidden), layer("first", rows, config.width, own_hidden), true);
      add(layer("second", rows, hidden, config.width), layer("second", rows, own_hidden, config.width), true);
      const int64_t inner = 2 * rows * own_hidden * options.element_bytes;
      row.kept_bytes = {2 * hidden_bytes + inner, 2 * hidden_bytes + inner, hidden_bytes};
      row.deferred_bytes = inner + 2 * hidden_bytes;
      row.output_bytes = hidden_bytes;
      if (options.tensor_ranks == 1) continue;
      const schedule::TensorCollective sum{.bytes = static_cast<double>(rows * config.width * options.element_bytes)};
      row.operations.forward_collectives.push_back(sum);
      row.operations.backward_collectives.push_back(sum);
    }

    table.push_back({.name = "output", .batch_tensors = {"fields", "targets", "weights"}});
    norm("norm");
    linear("output", config.width, variables);
    const auto output = layer("output", own, config.width, variables);
    add(output, output, true);
    const auto loss_bytes = static_cast<double>(6 * rows * variables * 4);
    table.back().operations.forward.push_back(schedule::memory_pass("loss", loss_bytes, 6));
    table.back().operations.input_gradient.push_back(schedule::memory_pass("loss gradient", loss_bytes, 6));
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
