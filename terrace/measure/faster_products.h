// Chooses between our matrix products and torch's for each class of weights, by the processor time of one thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <set>
#include <vector>

#include "terrace/measure/processor_time.h"
#include "terrace/ops/products/product_choice.h"

namespace terrace::measure {

// One of the three products of a class of weights, at a shape that stands for the class.
struct MeasuredProduct {
  ops::WeightClass weights = ops::WeightClass::small;
  ops::NamedProduct product = {};
  double own = 0, torch = 0;  // FLOP/s of one thread in the fastest round

  // Torch's only if they are clearly faster: ours keep their bits at every cut and number of threads.
  ops::Products faster() const;
};

// Measures the products of the type by our kernels and by torch's, alternately. Each product takes about a tenth of a
// second at most, less if one is faster by far. Empty if the processor lacks the instructions for our kernels. `clock`
// is read before and after each measured product.
std::vector<MeasuredProduct> measured_products(at::ScalarType type, const std::set<ops::WeightClass>& classes,
                                               const Clock& clock = processor_seconds);

// The faster products for each of the classes; for the other classes ours. Torch's for all on a GPU, and on a processor
// that lacks the instructions for our kernels.
ops::ProductsByClass faster_products(const at::Device& device, at::ScalarType type,
                                     const std::set<ops::WeightClass>& classes);

}  // namespace terrace::measure
