// A simulated step with the noise of its machine.
//
// The computations of a stage wait for the slowest of its tensor ranks, since each has collectives of all of them. The
// replicas, each of which computes with its own pipeline stages, wait for each other at the end of the step, where
// gradients are reduced. Which devices are slow is drawn for each step.
#pragma once

#include <cstdint>

#include "terrace/machine/noise.h"
#include "terrace/plan/time/simulated_step.h"
#include "terrace/schedule/step/step_graph.h"

namespace terrace::plan {

struct NoisyStep {
  schedule::StepGraph graph = {};
  machine::Noise noise = {};
  int64_t tensor_ranks = 1;  // that wait for each other in every computation
  int64_t replicas = 1;      // that wait for each other at the end of the step
  double noiseless_seconds = 0;
};

NoisyStep noisy_step(const SimulatedStep& step);

// The seconds that a step with noise takes longer on average than one without, by what it waits for.
struct NoiseCosts {
  double own_seconds = 0;      // the pauses and slowness of each device by itself
  double tensor_seconds = 0;   // for the slowest tensor rank of a stage
  double stages_seconds = 0;   // for other stages of the pipeline
  double replica_seconds = 0;  // for the slowest replica

  double total() const { return own_seconds + tensor_seconds + stages_seconds + replica_seconds; }
};

// The costs of a step of `seconds` on average whose replicas take `replica_seconds` each. Those of the devices by
// themselves and of tensor ranks are what a step takes longer whose computations all take their mean time.
NoiseCosts noise_costs(const NoisyStep& step, double replica_seconds, double seconds);

}  // namespace terrace::plan
