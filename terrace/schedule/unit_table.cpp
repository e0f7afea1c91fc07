// Computes sums over the rows of a unit table.
#include "terrace/schedule/unit_table.h"

namespace terrace::schedule {

namespace {

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

}  // namespace

std::set<std::string, std::less<>> batch_tensors_of(const UnitTable& table) {
  std::set<std::string, std::less<>> names;
  for (const UnitRow& row : table) names.insert(row.batch_tensors.begin(), row.batch_tensors.end());
  return names;
}

int64_t elements(const ParamMark& mark) { return elements_of(mark.global_shape); }

int64_t elements_on_rank(const ParamMark& mark, int64_t tensor_ranks, int64_t expert_ranks) {
  const int64_t whole = elements(mark);
  if (mark.of_experts) return whole / expert_ranks;
  if (mark.kind != ParamMark::Kind::sharded || whole == 0) return whole;
  const int64_t rows = mark.global_shape[static_cast<size_t>(mark.dim)];
  int64_t own = 0;
  for (const RowRange& range : row_ranges_of(mark, 0, tensor_ranks)) own += range.size;
  return whole / rows * own;
}

int64_t elements(const UnitTable& table) {
  int64_t sum = 0;
  for (const UnitRow& row : table) {
    for (const UnitParameter& parameter : row.parameters) sum += elements(parameter.mark);
  }
  return sum;
}

int64_t active_elements(const UnitTable& table) {
  int64_t active = elements(table);
  for (const UnitRow& row : table) active -= row.inactive_elements;
  return active;
}

int64_t buffer_bytes(const UnitRow& row) {
  constexpr int64_t fp32_bytes = 4;
  int64_t sum = 0;
  for (const UnitBuffer& buffer : row.buffers) sum += fp32_bytes * elements_of(buffer.shape);
  return sum;
}

double counted_flops(const UnitTable& table) {
  double sum = 0;
  for (const UnitRow& row : table) sum += row.counted_flops;
  return sum;
}

}  // namespace terrace::schedule
