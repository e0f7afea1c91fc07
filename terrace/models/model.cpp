// Builds the model of a configuration.
#include "terrace/models/model.h"

#include "terrace/base/error.h"
#include "terrace/models/gpt/model.h"
#include "terrace/models/gpt/sharding.h"

namespace terrace::models {

void Model::halve(int64_t unit) { TERRACE_CHECK(false, "unit {} stays whole", unit); }

void check_marks(const std::vector<nn::Parameter*>& parameters) {
  for (const nn::Parameter* parameter : parameters) {
    const ParamMark& mark = parameter->mark;
    TERRACE_CHECK(mark.kind != ParamMark::Kind::unmarked, "no mark on {}: add it to the model's table in sharding.cpp",
                  parameter->name);
    TERRACE_CHECK(mark.kind == ParamMark::Kind::replicated || mark.dim < parameter->value.dim(),
                  "{} is cut in dimension {} of {}", parameter->name, mark.dim, parameter->value.dim());
  }
}

std::unique_ptr<Model> build_model(const config::ModelConfig& config, const nn::Build& build) {
  if (config.family != "gpt") {
    throw UserError::of("model.family = \"{}\" is not built yet; use \"gpt\"", config.family);
  }
  auto model = std::make_unique<gpt::Gpt>(config, build);
  gpt::mark_parameters(config, model->parameters());
  check_marks(model->parameters());
  return model;
}

}  // namespace terrace::models
