// Defines the keys of [data] for fields, and their rules.
#include "terrace/data/fields/fields_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/config/section_keys.h"
#include "terrace/data/fields/fields_description.h"
#include "terrace/data/kept_statistics.h"
#include "terrace/data/order/order_keys.h"
#include "terrace/data/staging/stage_keys.h"

namespace terrace::data {
namespace {

using config::OnResume;

std::string leads_are_ahead(const config::Config& c) {
  for (const double lead : fields_of(c).leads) {
    if (lead <= 0) return fmt::format("data.leads has {} s; a forecast lies ahead, so give lengths above 0", lead);
  }
  return "";
}

std::string input_step_has_inputs(const config::Config& c) {
  if (fields_of(c).input_step == 0 || fields_of(c).inputs > 1) return "";
  return fmt::format("data.input_step = {} s with data.inputs = 1 has no two inputs to lie between; remove it",
                     fields_of(c).input_step);
}

std::string fields_without_stage(const config::Config& c) {
  return fields_of(c).stage.stages() ? "" : stage_bytes_without_stage;
}

std::string fields_without_node(const config::Config& c) {
  return fields_of(c).order.by_node() ? "" : shares_without_node;
}

std::string order_of_nodes_fits(const config::Config& c) { return problem_with_order(c, fields_of(c).order); }

}  // namespace

std::vector<config::Key> fields_keys() {
  using D = FieldsConfig;
  std::vector<config::Key> list;
  const config::SectionKeys data{"data", [](auto& config) -> decltype(auto) { return (fields_of(config)); }, list};
  data.required("fields", &D::fields, config::Text{}, OnResume::names_fixed, "\"data/era5\"",
                "Prefix of a dataset that `terrace data prepare --kind fields` made.");
  data.optional("statistics", &D::statistics, config::Text{.may_be_empty = true}, OnResume::names_fixed,
                "Description (`P.json`) with the means and deviations by which fields are normalised. Empty: that of "
                "the checkpoint in `train.initial_weights`, or without it that of `fields`. `data`: always that of "
                "`fields`. It is kept with each checkpoint.");
  data.feature("climatology", &D::climatology, config::Text{.may_be_empty = true}, OnResume::names_fixed,
               "Prefix of the dataset with the climatology. Empty: that of `fields`.");
  data.optional("leads", &D::leads, config::Durations{}, OnResume::fixed,
                "How far ahead of the last input the predicted fields lie, such as `\"6h\"`, `\"3d\"`, `\"1mo\"` or "
                "`\"1y\"`; of several, each sample draws one. A month has 30.4375 days, give or take a day.");
  data.optional("inputs", &D::inputs, config::Whole{1, 1000}, OnResume::fixed,
                "Times of which a sample has the fields, the last one at its start.");
  data.optional("input_step", &D::input_step, config::Duration{}, OnResume::fixed,
                "Time between the inputs. 0: the step of the data.");
  data.optional("constants", &D::constants, config::Texts{.may_be_empty = true}, OnResume::fixed,
                "Fields of the dataset that do not change, such as the orography, as further inputs.");
  data.feature(
      "turned", &D::turned, config::Flag{}, OnResume::fixed,
      "Turns the inputs and targets of each training sample about the poles by a number of columns that is drawn "
      "for it. Right where no longitude differs from another: for planets without continents.");
  data.feature("held_out_split", &D::held_out_split, config::Word{{"validation", "test"}}, OnResume::may_change,
               "Part of the times on which the model is evaluated.");
  add_order_keys([](auto& config) -> decltype(auto) { return (fields_of(config)); }, list);
  add_stage_keys([](auto& config) -> decltype(auto) { return (fields_of(config)); }, list);
  return list;
}

std::vector<config::Rule> fields_rules() {
  return {{{"data.leads"}, leads_are_ahead},
          {{"data.input_step", "data.inputs"}, input_step_has_inputs},
          {keys_of_order(), order_of_nodes_fits}};
}

std::vector<config::IdleRule> fields_idle_rules() {
  std::vector<config::IdleRule> rules = order_idle_rules(fields_without_node);
  rules.push_back(stage_bytes_idle_rule(fields_without_stage));
  return rules;
}

void hold_out_fields(FieldsConfig& config, const std::vector<std::string>& datasets, const AttachedPaths& attached) {
  if (datasets.size() != 1) {
    throw UserError::of("{} datasets are given; models of fields are evaluated on one at a time", datasets.size());
  }
  if (config.climatology.empty()) config.climatology = config.fields;
  config.fields = datasets.front();
  const FieldsDescription description = read_fields_description(description_path(config.fields));
  config.held_out_split = description.splits.contains("test") ? "test" : "validation";
  take_attached_statistics(config, attached);
}

void take_attached_statistics(FieldsConfig& config, const AttachedPaths& attached) {
  const auto found = attached.find("statistics");
  if (found != attached.end()) config.statistics = found->second;
}

std::string keep_field_statistics(FieldsConfig& config, const AttachedPaths& attached) {
  const auto found = attached.find("statistics");
  if (found == attached.end() || !config.statistics.empty()) return "";
  config.kept_statistics = found->second;
  return fmt::format(
      "fields are normalised by the means and deviations of {}, and by those of {} only where a variable is not known "
      "there; data.statistics = \"{}\" takes all of them from the data",
      found->second, config.fields, statistics_of_data);
}

}  // namespace terrace::data
