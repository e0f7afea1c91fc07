// Measures how long one thread takes to make the batches of a step.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "terrace/config/config.h"
#include "terrace/data/data_of_family.h"
#include "terrace/data/source.h"
#include "terrace/models/families.h"
#include "terrace/schedule/description.h"

namespace terrace::bench {

// The mean of `steps` steps of one rank and micro-batch, with the tensors that the network reads.
inline double making_seconds(const config::Config& config, int64_t steps) {
  const std::unique_ptr<data::Source> source = data::data_of_family(config).open(config);
  const data::TensorNames names = schedule::batch_tensors_of(schedule::unit_table(config));
  const int64_t samples = config.train.global_batch;
  const auto began = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= steps; ++step) {
    source->micro_batches({.step = step,
                           .first_sample = static_cast<uint64_t>((step - 1) * samples),
                           .samples = samples,
                           .micro_batch = samples},
                          names);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / static_cast<double>(steps);
}

}  // namespace terrace::bench
