// Counts parameters, and the padding of segments.
#include "terrace/plan/memory/rank_overhead.h"

#include "terrace/config/config.h"
#include "terrace/plan/memory/copied_states.h"

namespace terrace::plan {
namespace {

constexpr double parameter_bytes = 880;   // of each parameter of the model, with its part of the modules
constexpr double own_bytes = 830 * 1024;  // of each rank that has made a step

}  // namespace

double rank_overhead_bytes(const PlannedRun& run) {
  double parameters = 0;
  for (const schedule::UnitRow& row : run.table()) parameters += static_cast<double>(row.parameters.size());
  return own_bytes + parameter_bytes * parameters;
}

double padding_bytes(const PlannedRun& run, int64_t stage) {
  const config::TrainConfig& train = run.config.train;
  const auto on_rank = [&](double bytes, int64_t mesh::ShardSizes::*cut_over) {
    return bytes * run.stage_sum(stage, cut_over, [](const PlannedFlat& flat) { return flat.padded - flat.elements; });
  };
  return on_rank(static_cast<double>(config::element_bytes(train.precision)), &mesh::ShardSizes::weights) +
         on_rank(static_cast<double>(config::element_bytes(train.gradient_type)), &mesh::ShardSizes::gradients) +
         on_rank(checkpoint_bytes_per_parameter, &mesh::ShardSizes::optimizer);
}

}  // namespace terrace::plan
