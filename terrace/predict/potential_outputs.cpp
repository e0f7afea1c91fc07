// Finds outputs that are derivatives.
#include "terrace/predict/potential_outputs.h"

#include "terrace/base/error.h"

namespace terrace::predict {

PotentialOutputs potential_outputs(const GraphPredictor& model) {
  PotentialOutputs found;
  for (const models::GraphOutput& output : model.outputs()) {
    if (output.derivative_of.empty()) continue;
    found.energy = output.derivative_of;
    (output.level == data::GraphLevel::atom ? found.forces : found.stress) = output.name;
  }
  if (!found.forces.empty()) return found;
  throw UserError::of("{} predicts no forces; train a model with an output that has derivative_of = \"energy\"",
                      model.checkpoint().string());
}

}  // namespace terrace::predict
