// Which outputs of a model are an energy and its derivatives.
#pragma once

#include <string>

#include "terrace/predict/graph_predictor.h"

namespace terrace::predict {

struct PotentialOutputs {
  std::string energy = {}, forces = {}, stress = {};  // names; stress "": none
};

// Throws UserError where the model predicts no forces.
PotentialOutputs potential_outputs(const GraphPredictor& model);

}  // namespace terrace::predict
