// Seconds that the units of a model compute for one micro-batch on one rank of a machine. docs/cost_model.md has the
// formulas.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "terrace/config/config.h"
#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"
#include "terrace/plan/target.h"
#include "terrace/schedule/operation.h"

namespace terrace::plan {

// The parts of the time of a computation.
enum class TimeKind {
  products,
  attention,
  elements,     // operations that memory bandwidth limits
  launches,     // the time that the host's launches take beyond the device's work
  tensor_sums,  // sums over tensor ranks that computation waits for
  context,      // transfers among context ranks that computation waits for
  experts,      // exchanges among expert ranks
};
inline constexpr size_t num_time_kinds = 7;

// Whether the time is that of communication, during which the device does not compute.
constexpr bool is_waited_for(TimeKind kind) {
  return kind == TimeKind::tensor_sums || kind == TimeKind::context || kind == TimeKind::experts;
}
std::string_view name_of(TimeKind kind);

// One pass of a unit or of several.
struct PassTime {
  std::array<double, num_time_kinds> seconds = {};
  double product_flops = 0, attention_flops = 0;                     // executed on this rank
  double product_bytes = 0, attention_bytes = 0, element_bytes = 0;  // read and written
  // Read and written by the program: of elements in all its passes, and with those over the scores of attention that is
  // not fused.
  double memory_bytes = 0;
  // All collectives of the tensor ranks, transfers of the context ranks and exchanges of the expert ranks; the times of
  // their kinds are those that nothing hides.
  double tensor_seconds = 0, context_seconds = 0, expert_seconds = 0;

  double total() const;
  double computing() const;  // without waits
  double flops_of(TimeKind kind) const;
  double bytes_of(TimeKind kind) const;
  double& of(TimeKind kind) { return seconds[static_cast<size_t>(kind)]; }
  double of(TimeKind kind) const { return seconds[static_cast<size_t>(kind)]; }
  PassTime& operator+=(const PassTime& other);
  PassTime& operator*=(double factor);
};

struct UnitTime {
  PassTime forward, weight_gradient;
  PassTime input_gradient;  // with what recompute repeats of the forward
};

// The rank that computes a unit; together with the unit's operations it decides the unit's time.
struct ComputingRank {
  const machine::Machine& machine;
  const machine::Software& software;
  config::Precision precision = config::Precision::fp32;
  BlockProducts products = BlockProducts::as_run;  // of the unit; as_run for units outside of blocks
  // Seconds of one call of a collective of the tensor ranks for so many bytes; null with one rank.
  std::function<double(schedule::TensorCollective::Kind kind, double bytes)> tensor_collective = {};
  // Seconds of one call among the context ranks in which a rank sends so many bytes; null with one rank.
  std::function<double(schedule::ContextTransfer::Kind kind, double bytes)> context_transfer = {};
  // Seconds of one all-to-all among the expert ranks in which a rank sends so many bytes; null with one rank.
  std::function<double(double bytes)> expert_exchange = {};
};

// Seconds of the device for `count` products in one kernel (machine/product_time.h).
double product_seconds(const schedule::Operation& products, config::Precision precision, const machine::Device& device);

// The time of a unit. With `recompute` its forward is repeated before its input gradient: all of the forward (full), or
// the part that the program repeats, which in this program is attention (selective).
UnitTime unit_time(const schedule::Operations& operations, config::Recompute recompute, const ComputingRank& rank);

}  // namespace terrace::plan
