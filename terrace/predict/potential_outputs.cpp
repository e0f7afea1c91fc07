// Finds outputs that are derivatives.
#include "terrace/predict/potential_outputs.h"

#include <fmt/format.h>

#include "terrace/base/error.h"
#include "terrace/data/graphs/structures/quantities.h"

namespace terrace::predict {

namespace {

double electronvolts_of(const GraphPredictor& model, const PotentialOutputs& outputs) {
  const std::string unit = model.units_of(outputs.energy);
  const auto check = [&](const std::string& output, data::PhysicalQuantity derivative) {
    if (output.empty()) return;
    const std::string problem = data::problem_of_derivative(unit, model.units_of(output), derivative);
    if (!problem.empty()) throw UserError::of("{}: {}: {}", model.checkpoint().string(), output, problem);
  };
  check(outputs.forces, data::PhysicalQuantity::forces);
  check(outputs.stress, data::PhysicalQuantity::stress);
  if (unit.empty()) return 1;
  return data::checked_standard_units_in(fmt::format("{}: {}", model.checkpoint().string(), outputs.energy),
                                         data::PhysicalQuantity::energy, unit);
}

}  // namespace

PotentialOutputs potential_outputs(const GraphPredictor& model) {
  PotentialOutputs found;
  for (const models::GraphOutput& output : model.outputs()) {
    if (output.derivative_of.empty()) continue;
    found.energy = output.derivative_of;
    (output.level == data::GraphLevel::atom ? found.forces : found.stress) = output.name;
  }
  if (!found.forces.empty()) {
    found.electronvolts = electronvolts_of(model, found);
    return found;
  }
  throw UserError::of("{} predicts no forces; train a model with an output that has derivative_of = \"energy\"",
                      model.checkpoint().string());
}

}  // namespace terrace::predict
