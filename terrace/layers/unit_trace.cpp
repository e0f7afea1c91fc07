// Collects what follows from a trace, whatever the operations are.
#include "terrace/layers/unit_trace.h"

#include "terrace/layers/trace_bytes.h"

namespace terrace::layers {

using schedule::UnitRow;

UnitTrace::UnitTrace(const schedule::UnitTableOptions& options, Unit unit)
    : options_(options),
      unit_(std::move(unit)),
      ranks_(options.tensor_ranks),
      is_cut_(ranks_ > 1),
      cuts_sequence_(is_cut_ && options.sequence_parallel),
      row_{.name = unit_.name, .layer = unit_.layer} {
  unit_.positions /= options.context_ranks;
}

Value UnitTrace::value(int64_t rows, int64_t columns, int64_t own_columns, bool cuts_rows) {
  return {.number = values_++, .rows = rows, .columns = columns, .own_columns = own_columns, .cuts_rows = cuts_rows};
}

Value UnitTrace::like(const Value& x) {
  Value result = x;
  result.number = values_++;
  return result;
}

Value UnitTrace::given(int64_t rows, int64_t columns) {
  const Value x = value(rows, columns, columns, true);
  input_bytes_ += passed_bytes(x);
  return x;
}

Value UnitTrace::hidden(int64_t width) { return given(options_.samples * unit_.positions, width); }

Value UnitTrace::branch_sum(int64_t width) {
  const Value x = hidden(width);
  to_add_ = x.number;
  return x;
}

Value UnitTrace::data(int64_t rows, int64_t columns) {
  Value x = value(rows, columns, columns, true);
  x.on_parameters = false;
  return x;
}

Value UnitTrace::made(int64_t rows, int64_t columns, int64_t own_columns) {
  return value(rows, columns, own_columns, false);
}

Value depending_on(Value x, const Value& other) {
  x.on_parameters |= other.on_parameters;
  x.on_differentiated |= other.on_differentiated;
  return x;
}

void UnitTrace::parameter(const std::string& name, ParamMark mark, bool always_fp32) {
  row_.parameters.push_back({unit_.prefix + name, std::move(mark), always_fp32});
}

void UnitTrace::output(const Value& value) { row_.output_bytes += passed_bytes(value); }

void UnitTrace::add_later(const Value& x, const Value& branch) {
  read_by_sum(x);
  output(branch);
}

void UnitTrace::set_last() { is_last_ = true; }

void UnitTrace::add_flops(double forward, double input_gradient, double weight_gradient, double counted) {
  const auto ranks = static_cast<double>(options_.context_ranks);
  row_.forward_flops += ranks * forward;
  row_.input_gradient_flops += ranks * input_gradient;
  row_.weight_gradient_flops += ranks * weight_gradient;
  row_.counted_flops += ranks * counted;
}

UnitRow UnitTrace::finished() {
  row_.parameters.insert(row_.parameters.end(), last_parameters_.begin(), last_parameters_.end());
  row_.temporary_bytes = set_temporary_ >= 0 ? set_temporary_ : row_.temporary_bytes + touched_bytes_;
  if (!unit_.defers) row_.deferred_bytes = 0;
  if (unit_.counts_executed) {
    row_.counted_flops = row_.forward_flops + row_.input_gradient_flops + row_.weight_gradient_flops;
  }
  const int64_t with_full = unit_.layer < 0 ? saved_bytes_ : input_bytes_;
  row_.kept_bytes = {saved_bytes_ + not_with_selective_, saved_bytes_, with_full};
  if (is_last_) {
    row_.kept_bytes = {};
    row_.deferred_bytes = row_.output_bytes = 0;
  }
  return std::move(row_);
}

int64_t UnitTrace::own_rows(const Value& x) const {
  return x.cuts_rows && options_.sequence_parallel ? x.rows / ranks_ : x.rows;
}

int64_t UnitTrace::bytes(const Value& value) const {
  return own_rows(value) * value.own_columns * options_.element_bytes;
}

int64_t UnitTrace::passed_bytes(const Value& x) const {
  return unit_.passes_fp32 ? own_rows(x) * x.own_columns * wide_bytes : bytes(x);
}

double UnitTrace::bytes_of(int64_t rows, int64_t columns) const {
  return static_cast<double>(rows) * static_cast<double>(columns * options_.element_bytes);
}

void UnitTrace::save(const Value& x) {
  if (saved_.insert(x.number).second) saved_bytes_ += bytes(x);
}

void UnitTrace::touch(const Value& x) {
  if (touched_.insert(x.number).second) touched_bytes_ += bytes(x);
}

void UnitTrace::read_by_sum(const Value& x) {
  for (const auto& [number, place] : norms_) {
    if (number == x.number) row_.operations.input_gradient[place].bytes += static_cast<double>(bytes(x));
  }
}

int64_t rows_on_rank(int64_t rows, const RowGroups& groups, int64_t ranks) {
  if (groups.groups == 0 || groups.groups >= ranks) return rows / ranks;
  return (rows / groups.groups - groups.shared) * groups.groups / ranks + groups.shared;
}

UnitRow renamed(const UnitRow& row, const std::string& from, const std::string& to, int64_t layer) {
  UnitRow result = row;
  result.layer = layer;
  result.name.replace(0, from.size(), to);
  for (schedule::UnitParameter& parameter : result.parameters) parameter.name.replace(0, from.size(), to);
  for (schedule::UnitBuffer& buffer : result.buffers) buffer.name.replace(0, from.size(), to);
  return result;
}

}  // namespace terrace::layers
