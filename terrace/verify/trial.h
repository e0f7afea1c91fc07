// A few steps of training a configuration's model on random tokens, on several ranks or in double precision,
// with everything that came of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/config/config.h"
#include "terrace/schedule/partition.h"
#include "terrace/verify/digest_log.h"

namespace terrace::verify {

using WorldDecorator = std::function<std::unique_ptr<comm::World>(comm::World&)>;

// What a step ended with: whole tensors by name, by Compared.
struct StepState {
  double loss = 0, norm = 0;
  std::vector<double> micro_batch_losses = {};  // summed over tokens; in the order of sequences
  std::array<std::map<std::string, at::Tensor>, 4> tensors = {};
};

struct Trial {
  std::vector<StepState> steps;
  std::vector<DigestLog> digest_logs;  // by rank
  double loss_scale = 1;               // that gradients are multiplied by
};

// What ranks of trials are.
struct TrialRanks {
  int64_t number = 1;
  // The processes of a launch, all of which run the trials alike and learn everything; none: threads of this one.
  std::shared_ptr<comm::MpiLibrary> processes = {};
  // How the model is shared out, where it is not as the layout says: as another one does, whose digest logs are
  // compared.
  std::optional<schedule::Partition> partition = {};
};

// With config.layout. One thread computes for each rank.
Trial run_trial(const config::Config& config, const TrialRanks& ranks, const WorldDecorator& decorate = {});

// The same training by torch's operations in double precision, without rounding weights; no digest logs.
Trial run_exact_trial(const config::Config& config);

}  // namespace terrace::verify
