// Trains a configuration's model for a few steps on random samples, on several ranks or in double precision, and keeps
// all results.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/config/config.h"
#include "terrace/schedule/partition.h"
#include "terrace/verify/digest_log.h"

namespace terrace::verify {

using WorldDecorator = std::function<std::unique_ptr<comm::World>(comm::World&)>;

// The results of a step: for each value of ComparedTensor, whole tensors by name.
struct StepState {
  double loss = 0, norm = 0;
  std::vector<double> micro_batch_losses = {};  // sums, not means; in the order of samples
  std::array<std::map<std::string, at::Tensor>, 4> tensors = {};
};

struct SmallRun {
  std::vector<StepState> steps;
  std::vector<DigestLog> digest_logs;  // by rank
  double loss_scale = 1;               // the factor of gradients
};

// The ranks that train.
struct RunRanks {
  int64_t number = 1;
  // The processes of a launch, which all make the same runs and all get the results; null: threads of this process.
  std::shared_ptr<comm::MpiLibrary> processes = {};
  // The division of the model into segments; null: that of the layout. A run whose digest log is compared with that of
  // another layout uses the other layout's segments.
  std::shared_ptr<const schedule::Partition> partition = {};
};

// Trains with config.layout. One thread computes for each rank.
SmallRun train_small(const config::Config& config, const RunRanks& ranks, const WorldDecorator& decorate = {});

// Makes the training of train_small() on one rank, with torch's operations in double precision, without rounding
// weights and without digest logs.
SmallRun train_exactly(const config::Config& config);

}  // namespace terrace::verify
