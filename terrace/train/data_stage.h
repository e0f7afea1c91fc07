// Stages the data of a run on a disk of each node: the first rank of a node copies what the node's ranks will read, and
// all of them read the copies (docs/staging.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/data/source.h"
#include "terrace/data/staging/stage_config.h"
#include "terrace/data/staging/stager.h"
#include "terrace/data/staging/staging_buffer.h"
#include "terrace/observe/metrics.h"

namespace terrace::train {

struct DataStageRequest {
  data::StageConfig config = {};
  int64_t first_step = 1, last_step = 0;
  int64_t ranks_per_node = 1;  // as the layout has it
  int64_t data_rank = 0;       // the coordinate of this rank
  int64_t data_ranks = 1;
  std::function<uint64_t(int64_t step)> first_sample = {};  // the first sample of a step, counted over the whole run
  data::TensorNames names = {};                             // the tensors that this rank reads
  // Returns the ranges of the files that a data-parallel rank reads in a step, and in an evaluation after it; called on
  // another thread.
  std::function<data::FileRanges(int64_t step, int64_t data_rank, const data::TensorNames& names)> reads = {};
};

class DataStage {
 public:
  // Called by all ranks at the same place; `all_names` has the names of every rank. Throws a Refusal on all ranks where
  // a node cannot use the folder.
  DataStage(data::Source& source, comm::World& world, comm::Comm& all, const data::TensorNames& all_names,
            DataStageRequest request);

  // This rank begins to read a step.
  void begin_step(int64_t step) { buffer_->begin_step(reader_, step); }
  // The bytes that were copied on this rank's node, and read by its ranks, since the start.
  observe::StageMetrics metrics() const;
  // Ends the copying, and logs on the first rank what staging did on its node.
  void finish();

 private:
  struct NodeReader {
    int64_t data_rank = 0;
    data::TensorNames names = {};
  };
  std::vector<std::vector<NodeReader>> node_readers(comm::Comm& all, const data::TensorNames& all_names) const;
  struct Plan {
    uint64_t buffer_bytes = 0, extent_bytes = 0, step_bytes = 0;
  };
  Plan plan_buffer(const std::vector<const MappedFile*>& files, const std::vector<NodeReader>& readers) const;
  void make_buffer(const std::vector<const MappedFile*>& files, const Plan& plan);
  // The links of this node, by which it passes shares on; null where it has none. Called by all ranks.
  std::shared_ptr<data::NodeLinks> links_of(comm::World& world,
                                            const std::vector<std::vector<NodeReader>>& nodes) const;
  int64_t next_exchange(int64_t step) const;

  DataStageRequest request_;
  const data::NodeOrder* order_;  // null unless shares of the data move from node to node
  std::string folder_;
  int64_t rank_ = 0, first_of_node_ = 0, node_size_ = 1, reader_ = 0;
  std::shared_ptr<data::StagingBuffer> buffer_;
  std::unique_ptr<data::Stager> stager_;  // of the node's first rank
};

// data.stage with the values of its variables. Throws UserError that names a variable that is not set.
std::string stage_folder(const data::StageConfig& config);

}  // namespace terrace::train
