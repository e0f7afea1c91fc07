// What of a step falls to each rank.
#pragma once

#include <cstdint>

#include "terrace/config/config.h"
#include "terrace/mesh/mesh.h"
#include "terrace/schedule/pipeline.h"

namespace terrace::plan {

// The mesh of a configuration on so many ranks, so many of them on each machine unless the configuration says it.
mesh::Mesh mesh_of(const config::LayoutConfig& layout, int64_t ranks, int64_t ranks_per_node);

// Samples that pass through the model at once on each of so many data-parallel ranks: train.micro_batch, or the whole
// share of a rank where the configuration names none. Throws UserError with every size that does not divide; a family
// without equal shares (config::Family) has none of these, and the result is the largest micro-batch.
int64_t micro_batch_of(const config::Config& config, int64_t data_ranks);

// Refuses ranks over which a step is not divisible, or that the groups of [layout] do not fit. `here` of them are on
// this machine. Throws UserError.
void check_ranks(const config::Config& config, int64_t ranks, int64_t here);

// The pipeline that a full step takes on each of so many data-parallel ranks; of a family without equal shares, that of
// the largest micro-batches. Throws as micro_batch_of() does.
schedule::Pipeline pipeline_of(const config::Config& config, int64_t data_ranks);

}  // namespace terrace::plan
