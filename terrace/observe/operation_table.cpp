// Computes the exclusive time of nested spans, sums it by name, and prints the table.
#include "terrace/observe/operation_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "terrace/base/text/json.h"
#include "terrace/base/text/units.h"

namespace terrace::observe {
namespace {

double seconds_of(const Span& span) { return 1e-9 * static_cast<double>(span.end_ns - span.begin_ns); }

// A span whose inner spans are being visited, with their sums.
struct Open {
  const Span* span;
  bool in_step;
  double seconds_inside = 0, flops_inside = 0, bytes_inside = 0;
};

// Adds up rows by name, in the order in which the names came.
class Rows {
 public:
  OperationRow& of(const std::string& name) {
    const auto [found, is_new] = index_.try_emplace(name, rows_.size());
    if (is_new) rows_.push_back({.name = name});
    return rows_[found->second];
  }
  std::vector<OperationRow> take() { return std::move(rows_); }

 private:
  std::map<std::string, size_t> index_;
  std::vector<OperationRow> rows_;
};

class Counter {
 public:
  explicit Counter(const Trace& trace) {
    for (const Lane& lane : trace) {
      if (lane.rank != 0) continue;
      for (const Span& span : lane.spans) {
        if (is_step(span)) steps_.push_back(&span);
      }
    }
  }

  void count(const Lane& lane) {
    std::vector<const Span*> spans;
    bool has_phases = false;
    for (const Span& span : lane.spans) {
      spans.push_back(&span);
      has_phases |= span.kind == SpanKind::phase;
    }
    std::ranges::stable_sort(spans, [](const Span* a, const Span* b) { return encloses_or_precedes(*a, *b); });
    for (const Span* span : spans) {
      while (!open_.empty() && open_.back().span->end_ns <= span->begin_ns) close();
      const bool outer = !open_.empty() && open_.back().in_step;
      open_.push_back({span, outer || is_step(*span) || (!has_phases && during_a_step(*span))});
      if (open_.back().in_step && span->kind == SpanKind::phase) phases_.of(span->name);
    }
    while (!open_.empty()) close();
  }

  OperationTable table() {
    OperationTable table{.steps = static_cast<int64_t>(steps_.size()), .rows = operations_.take()};
    for (const Span* step : steps_) table.seconds += seconds_of(*step);
    table.between_seconds = table.seconds;
    for (const OperationRow& row : table.rows) table.between_seconds -= row.seconds;
    std::ranges::stable_sort(table.rows, std::greater(), &OperationRow::seconds);
    table.phases = phases_.take();
    return table;
  }

 private:
  static bool is_step(const Span& span) { return span.kind == SpanKind::phase && span.name == step_phase; }

  bool during_a_step(const Span& span) const {
    return std::ranges::any_of(
        steps_, [&](const Span* step) { return step->begin_ns <= span.begin_ns && span.end_ns <= step->end_ns; });
  }

  void close() {
    const Open done = open_.back();
    open_.pop_back();
    // An operation that consists of others reads and writes only what they do.
    const double flops = std::max(done.span->flops, done.flops_inside);
    const double bytes = std::max(done.span->bytes, done.bytes_inside);
    if (done.in_step) {
      const bool operation = done.span->kind == SpanKind::operation;
      OperationRow& row = (operation ? operations_ : phases_).of(done.span->name);
      ++row.calls;
      row.seconds += seconds_of(*done.span) - (operation ? done.seconds_inside : 0);
      row.flops += flops - (operation ? done.flops_inside : 0);
      row.bytes += bytes - (operation ? done.bytes_inside : 0);
    }
    if (open_.empty()) return;
    open_.back().seconds_inside += seconds_of(*done.span);
    open_.back().flops_inside += flops;
    open_.back().bytes_inside += bytes;
  }

  std::vector<const Span*> steps_;
  std::vector<Open> open_;
  Rows operations_, phases_;
};

Json json_of(const OperationRow& row, double all_seconds) {
  const auto rate = [&](double amount) { return amount > 0 && row.seconds > 0 ? Json(amount / row.seconds) : Json(); };
  return {{"name", row.name},
          {"calls", row.calls},
          {"seconds", row.seconds},
          {"share", all_seconds > 0 ? row.seconds / all_seconds : 0.0},
          {"flops", row.flops},
          {"bytes", row.bytes},
          {"flops_per_second", rate(row.flops)},
          {"bytes_per_second", rate(row.bytes)}};
}

std::string line_of(const OperationRow& row, const OperationTable& table) {
  const auto rate = [&](double amount, const auto& format) {
    return amount > 0 && row.seconds > 0 ? format(amount / row.seconds) : std::string("-");
  };
  const double steps = static_cast<double>(std::max<int64_t>(1, table.steps));
  return fmt::format("  {:<60.60} {:>7} {:>12.3f} {:>6.1f}% {:>15} {:>13}\n", row.name, row.calls,
                     1e3 * row.seconds / steps, 100 * row.seconds / table.seconds, rate(row.flops, format_flops),
                     rate(row.bytes, [](double b) { return format_bytes(b) + "/s"; }));
}

std::string heading(const char* what) {
  return fmt::format("  {:<60} {:>7} {:>12} {:>7} {:>15} {:>13}\n", what, "calls", "ms a step", "share", "FLOP/s",
                     "bytes/s");
}

}  // namespace

OperationTable count_operations(const Trace& trace) {
  Counter counter(trace);
  for (const Lane& lane : trace) {
    if (lane.rank == 0) counter.count(lane);
  }
  return counter.table();
}

Json OperationTable::json() const {
  Json operations = Json::array(), stretches = Json::array();
  for (const OperationRow& row : rows) operations.push_back(json_of(row, seconds));
  for (const OperationRow& row : phases) stretches.push_back(json_of(row, seconds));
  return {{"steps", steps},
          {"seconds", seconds},
          {"between_seconds", between_seconds},
          {"operations", operations},
          {"phases", stretches}};
}

std::string OperationTable::text(size_t most) const {
  if (steps == 0 || seconds <= 0) return "no step was recorded\n";
  std::string text = heading("phase");
  for (const OperationRow& row : phases) text += line_of(row, *this);
  text += "\n" + heading("operation");
  const size_t shown = std::min(most, rows.size());
  for (size_t i = 0; i < shown; ++i) text += line_of(rows[i], *this);
  OperationRow rest{.name = fmt::format("{} other operations", rows.size() - shown)};
  for (size_t i = shown; i < rows.size(); ++i) {
    rest.calls += rows[i].calls;
    rest.seconds += rows[i].seconds;
    rest.flops += rows[i].flops;
    rest.bytes += rows[i].bytes;
  }
  if (shown < rows.size()) text += line_of(rest, *this);
  OperationRow between{.name = "between operations", .seconds = between_seconds};
  return text + line_of(between, *this);
}

}  // namespace terrace::observe
