// Computes each rank's share of a step.
#pragma once

#include <cstdint>

#include "terrace/base/text/sizes.h"
#include "terrace/config/config.h"
#include "terrace/mesh/mesh.h"
#include "terrace/schedule/pipeline/pipeline.h"

namespace terrace::schedule {

// "layout.tensor = 2, context = 4 and pipeline = 8", for messages.
std::string cuts_of_samples(const config::LayoutConfig& layout);

// The mesh of a configuration on `ranks` ranks. `ranks_per_node` of them are on each machine unless the configuration
// has another number.
mesh::Mesh mesh_of(const config::LayoutConfig& layout, int64_t ranks, int64_t ranks_per_node);

// Samples that pass through the model at once on each of `data_ranks` data-parallel ranks: train.micro_batch, or the
// whole share of a rank if train.micro_batch is 0. Throws UserError with every size that is not divisible. For a family
// without equal shares (config::Family) sizes need not be divisible, and the result is the largest micro-batch. With a
// budget (train.micro_batch_sizes) it is as many samples of average size as fit, at least 1: an estimate, since the
// data decide.
int64_t micro_batch_of(const config::Config& config, int64_t data_ranks);

// Throws UserError if the model takes a step as one micro-batch (Description::why_one_micro_batch) and a full step is
// several on each of `data_ranks` data-parallel ranks.
void check_one_micro_batch(const config::Config& config, int64_t data_ranks);

// Throws UserError if a step is not divisible among the ranks, as check_one_micro_batch() does, or if the groups of
// [layout] do not fit them. `here` of the ranks are on this machine.
void check_ranks(const config::Config& config, int64_t ranks, int64_t here);

// The size of one micro-batch.
struct MicroBatchSize {
  int64_t samples = 1;
  Sizes sizes = {};  // Description::sample_sizes
  auto operator<=>(const MicroBatchSize&) const = default;
};

struct MicroBatchSizes {
  MicroBatchSize average, largest;
  auto operator<=>(const MicroBatchSizes&) const = default;
};

// The micro-batches of a full step on `data_ranks` data-parallel ranks. The largest one has samples of the largest
// size; of sizes with a budget as much as that. Throws as micro_batch_of() does.
MicroBatchSizes micro_batch_sizes_of(const config::Config& config, int64_t data_ranks);

// The pipeline of a full step on each of `data_ranks` data-parallel ranks; for a family without equal shares, that with
// the largest micro-batches, and with a budget an estimate. Throws as micro_batch_of() does.
Pipeline pipeline_of(const config::Config& config, int64_t data_ranks);

}  // namespace terrace::schedule
