// Sums of squares of pieces, added in global order.
#include "terrace/optim/gradient_norm.h"

#include <cmath>

#include "terrace/optim/kernels.h"

namespace terrace::optim {

GradientNorm gradient_norm(const std::vector<nn::Parameter*>& parameters) {
  GradientNorm result;
  double total = 0;
  for (const nn::Parameter* parameter : parameters) {
    const at::Tensor pieces = squares_by_piece(parameter->gradient);
    double own = 0;
    const double* values = pieces.const_data_ptr<double>();
    for (int64_t i = 0; i < pieces.numel(); ++i) {
      own += values[i];
      total += values[i];
    }
    if (!std::isfinite(own) && result.first_bad.empty()) result.first_bad = parameter->name;
  }
  result.norm = std::sqrt(total);
  return result;
}

double clip_multiplier(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

}  // namespace terrace::optim
