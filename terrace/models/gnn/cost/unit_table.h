// The unit table of a graph network, and the samples that a planner takes.
#pragma once

#include "terrace/models/gnn/settings/config.h"
#include "terrace/schedule/description.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gnn {

// The unit table for micro-batches of options.samples graphs with options.sizes of "atoms" and "edges".
schedule::UnitTable unit_table(const ModelConfig& config, const schedule::UnitTableOptions& options);

class GnnDescription : public schedule::Description {
 public:
  schedule::UnitTable unit_table(const config::Config& config,
                                 const schedule::UnitTableOptions& options) const override;
  // The keys of [data], and where they are 0 the training parts of the prepared data.
  schedule::SampleSizes sample_sizes(const config::Config& config) const override;
  // A structure with the labels of all outputs, and with edges where the data have them. Further properties, of which
  // the data alone have the widths, are not counted.
  schedule::SampleBytes sample_bytes(const config::Config& config) const override;
  // Not empty with batch norm, whose statistics are those of a micro-batch.
  std::string why_one_micro_batch(const config::Config& config) const override;
};

}  // namespace terrace::models::gnn
