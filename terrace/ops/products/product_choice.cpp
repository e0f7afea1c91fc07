// Sorts weights into classes by their shape.
#include "terrace/ops/products/product_choice.h"

#include <c10/util/accumulate.h>

#include <algorithm>

namespace terrace::ops {

std::string_view name_of(WeightClass weights) {
  static constexpr std::array<std::string_view, weight_classes.size()> names{"small", "medium", "large", "tall"};
  return names[static_cast<size_t>(weights)];
}

WeightClass weight_class_of(c10::IntArrayRef shape) {
  constexpr int64_t tall_ratio = 8, small_below = 512, medium_below = 2048;
  const int64_t outputs = shape.empty() ? 1 : shape.front();
  const int64_t inputs = shape.empty() ? 1 : c10::multiply_integers(shape.slice(1));
  if (outputs >= tall_ratio * inputs) return WeightClass::tall;
  const int64_t smaller = std::min(outputs, inputs);
  return smaller < small_below ? WeightClass::small : smaller < medium_below ? WeightClass::medium : WeightClass::large;
}

ProductsByClass ProductsByClass::all(Products products) {
  ProductsByClass by_class;
  by_class.choices.fill(ProductChoice::all(products));
  return by_class;
}

}  // namespace terrace::ops
