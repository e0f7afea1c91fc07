// Prints what terrace train measures at its start to choose between our products and torch's: GFLOP/s of one thread for
// each class of weights, and the choice.
#include "terrace/measure/faster_products.h"

#include <fmt/core.h>

#include <set>

#include "terrace/measure/processor_time.h"

int main() {
  using namespace terrace;
  const std::set<ops::WeightClass> classes{ops::weight_classes.begin(), ops::weight_classes.end()};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const double start = measure::processor_seconds();
    const auto products = measure::measured_products(type, classes);
    fmt::print("{}, chosen in {:.2f} s: ours, torch's, ratio\n", at::toString(type),
               measure::processor_seconds() - start);
    for (const measure::MeasuredProduct& product : products) {
      fmt::print("  {:<6} {:<15} {:6.1f} {:6.1f}  {:.2f}  {}\n", ops::name_of(product.weights), product.product.name,
                 product.own / 1e9, product.torch / 1e9, product.own / product.torch,
                 product.faster() == ops::Products::own ? "ours" : "torch's");
    }
  }
}
