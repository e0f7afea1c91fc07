// The global gradient norm, summed in fixed pieces so that it does not depend on threads or on where a layout cuts.
#pragma once

#include <string>
#include <vector>

#include "terrace/nn/module.h"

namespace terrace::optim {

struct GradientNorm {
  double norm = 0;        // of all gradients together; NaN or infinite where one is
  std::string first_bad;  // the first parameter, in order, whose gradient is not finite; "" where all are
};

// Pieces of 65,536 elements in the parameters' order are squared and summed each, then added in order.
GradientNorm gradient_norm(const std::vector<nn::Parameter*>& parameters);

// What gradients are multiplied by so that their norm is at most `clip`; 1 where clip is 0 (off). Pascanu et al., "On
// the difficulty of training recurrent neural networks", ICML 2013.
double clip_multiplier(double norm, double clip);

}  // namespace terrace::optim
