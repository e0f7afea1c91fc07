// Figures that the training and evaluation of a graph network give beside the loss.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "terrace/observe/figures.h"

namespace terrace::models::gnn {

// The terms of the loss: one that is trained for each output, in their order, and behind them one of each output with
// the sums of the sizes and of the squares of its errors in the units of the data, of per_atom outputs divided by the
// number of atoms, and those of the spreads of its values and of their labels over each micro-batch. Both count the
// values of the output that have a label: columns times graphs or atoms.
inline size_t figures_term(size_t outputs, size_t output) { return outputs + output; }

// mae_NAME and rmse_NAME are the mean error's size and the root of the mean square over all values of an output, in the
// units of the data; loss_NAME is its term of the loss; spread_NAME is the distance of its largest from its least value
// over a micro-batch by that of the labels, NaN where these are all equal.
class GnnFigures : public observe::Figures {
 public:
  std::string loss_unit(const config::Config&) const override { return "weighted losses"; }
  std::vector<observe::Figure> list(const config::Config& config) const override;
};

}  // namespace terrace::models::gnn
