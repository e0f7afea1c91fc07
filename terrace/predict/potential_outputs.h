// Finds the outputs of a model that are an energy and its derivatives.
#pragma once

#include <string>

#include "terrace/predict/graph_predictor.h"

namespace terrace::predict {

struct PotentialOutputs {
  std::string energy = {}, forces = {}, stress = {};  // names; stress "": none
  // The factor that converts the model's energy to eV, and its derivatives by positions in angstrom to eV/angstrom and
  // eV/angstrom^3.
  double electronvolts = 1;
};

// Throws UserError where the model predicts no forces, and where its data were in units that are not known, or not
// those of an energy and its derivatives.
PotentialOutputs potential_outputs(const GraphPredictor& model);

}  // namespace terrace::predict
