// Builds the model of a configuration.
#include "terrace/models/model.h"

#include "terrace/base/error.h"
#include "terrace/models/cost/unit_table.h"
#include "terrace/models/gpt/model.h"

namespace terrace::models {

const at::Tensor& Batch::operator[](std::string_view name) const {
  static const at::Tensor none;
  const auto found = tensors.find(name);
  return found == tensors.end() ? none : found->second;
}

namespace {

void apply_marks(Model& model, const schedule::UnitTable& table) {
  TERRACE_CHECK(model.num_units() == static_cast<int64_t>(table.size()), "{} units in the model, {} in its table",
                model.num_units(), table.size());
  for (size_t unit = 0; unit < table.size(); ++unit) {
    const std::vector<nn::Parameter*> parameters = model.unit_parameters(static_cast<int64_t>(unit));
    const std::vector<schedule::UnitParameter>& rows = table[unit].parameters;
    TERRACE_CHECK(parameters.size() == rows.size(), "{} has {} parameters, {} in the table", table[unit].name,
                  parameters.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      TERRACE_CHECK(parameters[i]->name == rows[i].name, "{} is {} in the table", parameters[i]->name, rows[i].name);
      TERRACE_CHECK(parameters[i]->value.sizes().vec() == rows[i].mark.global_shape,
                    "{} has another shape in the table", rows[i].name);
      parameters[i]->mark = rows[i].mark;
    }
  }
}

}  // namespace

void check_marks(const std::vector<nn::Parameter*>& parameters) {
  for (const nn::Parameter* parameter : parameters) {
    const ParamMark& mark = parameter->mark;
    TERRACE_CHECK(mark.kind != ParamMark::Kind::unmarked,
                  "no mark on {}: its family's cost/sharding.cpp has no rule for it", parameter->name);
    TERRACE_CHECK(mark.kind == ParamMark::Kind::replicated || mark.dim < parameter->value.dim(),
                  "{} is cut in dimension {} of {}", parameter->name, mark.dim, parameter->value.dim());
  }
}

std::unique_ptr<Model> build_model(const config::ModelConfig& config, const nn::Build& build) {
  const schedule::UnitTable table = unit_table(config);  // refuses other families
  auto model = std::make_unique<gpt::Gpt>(config, build);
  apply_marks(*model, table);
  check_marks(model->parameters());
  return model;
}

}  // namespace terrace::models
