// The configuration of a GPT that is small enough to work its steps out by hand.
#pragma once

#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::plan {

// Steps of eight sequences of 16 tokens, in micro-batches of one.
inline config::Config small_gpt(int64_t layers, int64_t width = 24, int64_t heads = 6) {
  config::Config config = config::config_of(models::gpt::planned_family());
  models::gpt::ModelConfig& model = models::gpt::model_of(config);
  model = {
      .layers = layers, .width = width, .heads = heads, .sequence = 16, .vocabulary = 61, .vocabulary_multiple = 8};
  models::gpt::derive(model);
  config.train.global_batch = 8;
  config.train.micro_batch = 1;
  return config;
}

}  // namespace terrace::plan
