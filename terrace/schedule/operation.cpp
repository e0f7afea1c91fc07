// Computes FLOPs and bytes of operations from their shapes.
#include "terrace/schedule/operation.h"

#include <algorithm>

namespace terrace::schedule {
namespace {

double product_of(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

}  // namespace

double Operation::flops() const {
  const double multiply_adds = product_of(m, n) * product_of(k, count);
  if (kind == Kind::product) return 2 * multiply_adds;
  if (kind != Kind::attention) return 0;
  const double forward_products = 2, gradient_products = fused ? 5 : 4;
  const double seen = !fused || !causal ? 1.0 : window > 0 ? share_in_window() : 0.5;
  return 2 * seen * (backward ? gradient_products : forward_products) * multiply_adds;
}

double Operation::share_in_window() const {
  const double share = std::min(1.0, static_cast<double>(window) / static_cast<double>(n));
  return share * (1 - share / 2);
}

Operation matrix_product(std::string_view name, int64_t m, int64_t n, int64_t k, int64_t element_bytes) {
  const double elements = product_of(m, k) + product_of(k, n) + product_of(m, n);
  return {.kind = Operation::Kind::product,
          .name = name,
          .m = m,
          .n = n,
          .k = k,
          .bytes = elements * static_cast<double>(element_bytes)};
}

Operation memory_pass(std::string_view name, double bytes, int64_t kernels) {
  return {.kind = Operation::Kind::elements, .name = name, .count = kernels, .bytes = bytes};
}

Operation repeated(int64_t count, Operation one) {
  one.count *= count;
  one.bytes *= static_cast<double>(count);
  return one;
}

Operation forward_product(const LinearLayer& layer) {
  return matrix_product(layer.name, layer.rows, layer.outputs, layer.inputs, layer.element_bytes);
}

Operation input_gradient_product(const LinearLayer& layer) {
  return matrix_product(layer.name, layer.rows, layer.inputs, layer.outputs, layer.element_bytes);
}

Operation weight_gradient_product(const LinearLayer& layer) {
  Operation product = matrix_product(layer.name, layer.outputs, layer.inputs, layer.rows, layer.element_bytes);
  // The result has the gradient's type and is read before it is written.
  product.bytes +=
      product_of(layer.outputs, layer.inputs) * static_cast<double>(2 * layer.gradient_bytes - layer.element_bytes);
  return product;
}

Operation bias_gradient_sums(const LinearLayer& layer, int64_t rows) {
  const double gradient = static_cast<double>(layer.outputs * 2 * layer.gradient_bytes);
  return memory_pass("add_column_sums", gradient + product_of(rows, layer.outputs * layer.element_bytes));
}

}  // namespace terrace::schedule
