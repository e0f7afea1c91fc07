// Steps with noise for tests: of one computation, and of small GPTs on layouts.
#pragma once

#include <cstdint>

#include "terrace/plan/noise/noisy_step.h"
#include "terrace/plan/prediction.h"
#include "tests/plan/small_gpt.h"
#include "tests/plan/small_machine.h"

namespace terrace::plan {

// One stage computes once, for 1 s.
inline NoisyStep one_computation(const machine::Noise& noise, int64_t tensor_ranks = 1, int64_t replicas = 1) {
  NoisyStep step{.noise = noise, .tensor_ranks = tensor_ranks, .replicas = replicas, .noiseless_seconds = 1};
  step.graph.num_stages = 1;
  step.graph.computations = {1.0};
  step.graph.operations = {{.first = 0, .count = 1}};
  return step;
}

struct NoisyLayout {
  int64_t tensor = 1, pipeline = 1, data = 1, micro_batches = 1;
};

// A GPT of 31 layers whose head makes the last stage longer than others.
inline config::Config noisy_config(const NoisyLayout& layout) {
  config::Config config = small_gpt(31, 48, 8);
  models::gpt::model_of(config).vocabulary = 2000;
  models::gpt::derive(models::gpt::model_of(config));
  config.layout.tensor = layout.tensor;
  config.layout.pipeline = layout.pipeline;
  config.train.global_batch = layout.micro_batches * layout.data;
  config.train.micro_batch = 1;
  return config;
}

inline Target noisy_target(const NoisyLayout& layout) {
  Target target{
      .machine = computing_machine(), .software = {}, .devices = layout.tensor * layout.pipeline * layout.data};
  target.machine.tiers.back().devices = 8192;
  return target;
}

// The step of the layout; its machine states no noise.
inline NoisyStep step_of(const NoisyLayout& layout) {
  const Target target = noisy_target(layout);
  const PlannedRun run = planned_run(noisy_config(layout), target);
  return noisy_step(SimulatedStep(run, target));
}

}  // namespace terrace::plan
