// Figures that the training and evaluation of a vision transformer give beside the loss.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "terrace/observe/figures.h"

namespace terrace::models::vit {

// The terms of the loss, each with the number of samples as its count. `field` is a sample's mean squared error over
// outputs and the grid; of all others there is one number for each output. Every mean over the grid has weights that
// are proportional to the cosines of the latitudes.
enum class Term : size_t { field, rmse, bias, squares, persistence };

// rmse_NAME is the mean over samples of the root of the mean squared error of a field, as ClimaX has it
// (arXiv 2301.10343), bias_NAME the mean error; both in deviations of the normalised variable. skill is 1 minus the
// squared error in units of that of persistence, the forecast that nothing changes: 0 is persistence, 1 is perfect.
class VitFigures : public observe::Figures {
 public:
  std::string loss_unit(const config::Config&) const override { return "squared deviations"; }
  std::vector<observe::Figure> list(const config::Config& config) const override;
};

// The name of a variable as a part of a figure's name: "2m_temperature".
std::string figure_name(const std::string& variable);

}  // namespace terrace::models::vit
