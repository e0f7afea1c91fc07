// Computes sines and cosines of positions.
#include "terrace/models/vit/initial_tables.h"

#include <ATen/ops/empty.h>

#include <cmath>

namespace terrace::models::vit {
namespace {

// Element `i` of the `width` that belong to a position.
double sine_of(int64_t position, int64_t i, int64_t width) {
  const int64_t half = width / 2;
  const double frequency = std::pow(10000.0, -static_cast<double>(i % half) / static_cast<double>(half));
  const double angle = static_cast<double>(position) * frequency;
  return i < half ? std::sin(angle) : std::cos(angle);
}

template <typename Element>
nn::InitialValue table_of(const Element& element) {
  return nn::InitialValue::table([element](int64_t begin, int64_t end) {
    const at::Tensor values = at::empty({end - begin}, at::TensorOptions(at::kDouble));
    double* to = values.mutable_data_ptr<double>();
    for (int64_t i = begin; i < end; ++i) *to++ = element(i);
    return values;
  });
}

}  // namespace

nn::InitialValue xavier_uniform(int64_t inputs, int64_t outputs) {
  const double bound = std::sqrt(6.0 / static_cast<double>(inputs + outputs));
  return nn::InitialValue::uniform(-bound, bound);
}

nn::InitialValue sines_of_index(int64_t width) {
  return table_of([width](int64_t i) { return sine_of(i / width, i % width, width); });
}

nn::InitialValue sines_of_place(int64_t columns, int64_t width) {
  return table_of([columns, width](int64_t i) {
    const int64_t place = i / width, half = width / 2, of_half = i % width % half;
    return sine_of(i % width < half ? place % columns : place / columns, of_half, half);
  });
}

}  // namespace terrace::models::vit
