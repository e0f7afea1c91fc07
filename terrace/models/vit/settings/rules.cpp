// Defines the rules between the keys of a vision transformer and with [data] and [layout].
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "terrace/base/error.h"
#include "terrace/config/divisors.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/models/vit/settings/keys.h"
#include "terrace/models/vit/settings/vit_figures.h"

namespace terrace::models::vit {
namespace {

using config::Config;

constexpr int64_t most_latitudes = 100'000;

bool grid_is_valid(const ModelConfig& model) {
  return model.grid.size() == 2 &&
         std::ranges::all_of(model.grid, [](int64_t n) { return n >= 1 && n <= most_latitudes; });
}

// The names in words if `name` is none of them; "" if it is one.
std::string names_without(const std::string& name, const std::vector<std::string>& names) {
  return std::ranges::find(names, name) == names.end() ? config::listed(names, "and") : "";
}

std::string grid_has_two_sizes(const Config& c) {
  if (grid_is_valid(model_of(c))) return "";
  return fmt::format(
      "model.grid has to be the numbers of latitudes and of longitudes, each from 1 to {}, such as "
      "[32, 64]",
      most_latitudes);
}

std::string patch_fits_grid(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (!grid_is_valid(model)) return "";
  if (model.longitudes() % model.patch != 0) {
    return fmt::format("model.patch = {} does not divide the {} longitudes of model.grid; use {}", model.patch,
                       model.longitudes(), config::listed(config::divisors_near(model.longitudes(), model.patch)));
  }
  if (model.patch > model.latitudes()) {
    return fmt::format("model.patch = {} is larger than the {} latitudes of model.grid; use {} or less", model.patch,
                       model.latitudes(), model.latitudes());
  }
  return "";
}

std::string heads_divide_width(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.width % model.heads == 0) return "";
  return fmt::format("model.heads = {} does not divide model.width = {}; use {}", model.heads, model.width,
                     config::listed(config::divisors_near(model.width, model.heads)));
}

std::string width_holds_positions(const Config& c) {
  const int64_t width = model_of(c).width;
  if (width % 4 == 0) return "";
  return fmt::format(
      "model.width = {} is no multiple of 4, as sines and cosines of longitude and latitude need; use {}", width,
      (width + 3) / 4 * 4);
}

// Dropout draws the inner values of each head's share of them.
std::string heads_divide_ffn(const Config& c) {
  const ModelConfig& model = model_of(c);
  const double exact = model.mlp_ratio * static_cast<double>(model.width);
  const int64_t inner = model.ffn_width();
  if (std::abs(exact - static_cast<double>(inner)) < 1e-6 && inner > 0 && inner % model.heads == 0) return "";
  const int64_t near = std::max<int64_t>(1, std::llround(exact / static_cast<double>(model.heads))) * model.heads;
  return fmt::format(
      "model.mlp_ratio = {} gives feed-forward blocks of {} times {} hidden units, which is no multiple of the {} "
      "heads; use {}, for {} of them",
      model.mlp_ratio, model.mlp_ratio, model.width, model.heads,
      static_cast<double>(near) / static_cast<double>(model.width), near);
}

std::string outputs_are_variables(const Config& c) {
  const ModelConfig& model = model_of(c);
  for (const std::string& output : model.outputs) {
    const std::string known = names_without(output, model.variables);
    if (!known.empty()) {
      return fmt::format("model.outputs has \"{}\", which is none of model.variables: {}", output, known);
    }
  }
  return "";
}

std::string constants_are_others(const Config& c) {
  for (const std::string& constant : data_of(c).constants) {
    if (!names_without(constant, model_of(c).variables).empty()) continue;
    return fmt::format("data.constants has \"{}\", which is one of model.variables too; remove it from one of them",
                       constant);
  }
  return "";
}

std::string weights_are_of_outputs(const Config& c) {
  const ModelConfig& model = model_of(c);
  const std::vector<std::string>& outputs = model.outputs.empty() ? model.variables : model.outputs;
  for (const auto& [name, weight] : model.loss_weights) {
    const std::string known = names_without(name, outputs);
    if (!known.empty()) {
      return fmt::format("model.loss_weights has \"{}\", which is none of the outputs: {}", name, known);
    }
  }
  if (std::ranges::any_of(outputs, [&](const std::string& output) {
        const auto found = model.loss_weights.find(output);
        return found == model.loss_weights.end() || found->second > 0;
      })) {
    return "";
  }
  return "model.loss_weights gives every output the weight 0; give one of them a weight above 0";
}

std::string figures_have_names_of_their_own(const Config& c) {
  const ModelConfig& model = model_of(c);
  std::map<std::string, std::string> names;
  for (const std::string& output : model.outputs.empty() ? model.variables : model.outputs) {
    const auto [found, is_new] = names.try_emplace(figure_name(output), output);
    if (is_new) continue;
    return fmt::format(
        "the outputs \"{}\" and \"{}\" would both be called {} in the metrics; give one of them another name in the "
        "prepared data",
        found->second, output, found->first);
  }
  return "";
}

std::string leads_are_inputs(const Config& c) {
  const size_t leads = data_of(c).leads.size();
  if (model_of(c).lead_embedding || leads <= 1) return "";
  return fmt::format(
      "model.lead_embedding = false, and a model that is not told how far ahead it predicts cannot tell the {} leads "
      "of data.leads apart; use true, or one lead",
      leads);
}

std::string damping_has_one_lead(const Config& c) {
  const size_t leads = data_of(c).leads.size();
  if (!model_of(c).damps_anomaly() || leads <= 1) return "";
  return fmt::format(
      "model.predicts = \"damped_anomaly\" has one coefficient for each place, which cannot be right for the {} leads "
      "of data.leads; use one lead, or predicts = \"anomaly\"",
      leads);
}

// The problem if layout.tensor does not divide `number`; "" if it does.
std::string tensor_divides(const Config& c, const std::string& what, int64_t number) {
  const int64_t tensor = c.layout.tensor;
  if (number % tensor == 0) return "";
  return fmt::format("layout.tensor = {} does not divide {} = {}; use {}", tensor, what, number,
                     config::listed(config::divisors_near(number, tensor)));
}

// The inner width of feed-forward blocks is a multiple of the heads.
std::string tensor_divides_heads(const Config& c) {
  const std::string problem = tensor_divides(c, "model.heads", model_of(c).heads);
  return problem.empty() ? "" : problem + ": the scores of a head are computed on one tensor rank";
}

std::string places_are_cut(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (!c.layout.sequence_parallel || !grid_is_valid(model)) return "";
  const std::string what = fmt::format("the patches, {} x {}", model.patch_rows(), model.longitudes() / model.patch);
  return tensor_divides(c, what, model.places());
}

std::string beside_one_layer(const Config& c) {
  return model_of(c).layers > 1 ? "" : "with model.layers = 1, as the first block is never skipped; remove it";
}

}  // namespace

std::vector<config::Rule> rules() {
  return {
      {{"model.grid"}, grid_has_two_sizes},
      {{"model.patch", "model.grid"}, patch_fits_grid},
      {{"model.heads", "model.width"}, heads_divide_width},
      {{"model.width"}, width_holds_positions},
      {{"model.mlp_ratio", "model.width", "model.heads"}, heads_divide_ffn},
      {{"model.outputs", "model.variables"}, outputs_are_variables},
      {{"data.constants", "model.variables"}, constants_are_others},
      {{"model.loss_weights", "model.outputs", "model.variables"}, weights_are_of_outputs},
      {{"model.outputs", "model.variables"}, figures_have_names_of_their_own},
      {{"model.lead_embedding", "data.leads"}, leads_are_inputs},
      {{"model.predicts", "data.leads"}, damping_has_one_lead},
      {{"layout.tensor", "model.heads"}, tensor_divides_heads},
      {{"layout.sequence_parallel", "layout.tensor", "model.grid", "model.patch"}, places_are_cut},
  };
}

std::vector<config::IdleRule> idle_rules() {
  return {{.key = "model.drop_path", .causes = {"model.layers"}, .off = "0", .beside = beside_one_layer}};
}

}  // namespace terrace::models::vit
