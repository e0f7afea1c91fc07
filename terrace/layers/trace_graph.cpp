// Traces what networks of graphs compute beside their linear layers.
#include "terrace/layers/unit_trace.h"

namespace terrace::layers {

// Whatever is differentiated is passed over once more for the derivative, and in backward.
void UnitTrace::pass(std::string_view name, double bytes) {
  const schedule::Operation one = schedule::memory_pass(name, (unit_.differentiates ? 2 : 1) * bytes);
  row_.operations.forward.push_back(one);
  row_.operations.input_gradient.push_back(one);
}

Value UnitTrace::part(const Value& x, int64_t columns) {
  Value y = like(x);
  y.columns = y.own_columns = columns;
  return y;
}

Value UnitTrace::elements(std::string_view name, const Value& x, int64_t columns, const Touched& touched) {
  const Value y = part(x, columns);
  pass(name, static_cast<double>((touched.read + touched.written) * bytes(y)));
  keep_with_derivative(touched.saved * bytes(y));
  return y;
}

// The rows are read where they lie, and the sums are written once for each atom; next to what is written or read for
// each edge both are few.
Value UnitTrace::gathered(const Value& x, int64_t rows) {
  Value y = like(x);
  y.rows = rows;
  pass("gather", 2.0 * static_cast<double>(bytes(y)));
  return y;
}

Value UnitTrace::segment_sum(const Value& x, int64_t rows) {
  Value y = like(x);
  y.rows = rows;
  pass("segment sum", static_cast<double>(bytes(x)));
  return y;
}

// Both rows of each edge are read where they lie; backward makes the gradients of factors.
Value UnitTrace::message_sum(const Value& x, const Value& factors, int64_t edges) {
  Value y = depending_on(like(x), factors);
  pass("message sum", static_cast<double>(edges * x.own_columns * options_.element_bytes));
  keep(bytes(factors));
  keep_with_derivative(bytes(x));
  return y;
}

}  // namespace terrace::layers
