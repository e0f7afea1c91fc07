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
#include "terrace/verify/trace.h"

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
  std::vector<Trace> traces;  // by rank
  double loss_scale = 1;      // that gradients are multiplied by
};

// What ranks of trials are.
struct TrialRanks {
  int64_t number = 1;
  // The processes of a launch, all of which run the trials alike and learn everything; none: threads of this one.
  std::shared_ptr<comm::MpiLibrary> processes = {};
  // Another layout whose units the model has, so that traces can be compared; none: it has its own.
  std::optional<config::LayoutConfig> units_of = {};
};

// The model of the configuration, with the units that the layout makes of it.
std::unique_ptr<models::Model> model_with_units_of(const config::LayoutConfig& layout,
                                                   const config::ModelConfig& config, const nn::Build& build);

// With config.layout. One thread computes for each rank.
Trial run_trial(const config::Config& config, const TrialRanks& ranks, const WorldDecorator& decorate = {});

// The same training by torch's operations in double precision, without rounding weights; no traces.
Trial run_exact_trial(const config::Config& config);

}  // namespace terrace::verify
