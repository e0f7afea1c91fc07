// Makes small models of both kinds, with weights so large that every token affects the next one.
#pragma once

#include "terrace/config/config.h"
#include "terrace/models/gpt/gpt_family.h"
#include "terrace/models/gpt/model.h"
#include "terrace/models/model.h"
#include "terrace/nn/module.h"

namespace terrace::generate {

inline models::gpt::ModelConfig gpt2_like() {
  models::gpt::ModelConfig config;
  config.layers = 2;
  config.width = 32;
  config.heads = config.kv_heads = 4;
  config.head_dim = 8;
  config.ffn_width = 128;
  config.sequence = 24;
  config.vocabulary = 67;
  config.vocabulary_multiple = 16;
  config.init_std = 0.3;
  return config;
}

inline models::gpt::ModelConfig llama_like() {
  models::gpt::ModelConfig config = gpt2_like();
  config.layers = 3;
  config.kv_heads = 2;
  config.ffn_width = 80;
  config.positions = models::gpt::Positions::rotary;
  config.norm = models::gpt::Norm::rmsnorm;
  config.activation = models::gpt::Activation::swiglu;
  config.tied_head = false;
  config.bias = false;
  return config;
}

inline config::Config whole(const models::gpt::ModelConfig& model) {
  config::Config config = config::config_of(models::gpt::family());
  models::gpt::model_of(config) = model;
  return config;
}

inline std::unique_ptr<models::Model> build(const models::gpt::ModelConfig& config, at::ScalarType type = at::kFloat) {
  const auto products = ops::ProductsByClass::all(ops::Products::decoding);  // as load() does
  auto model = models::gpt::build_model(config, {.device = at::kCPU, .type = type, .kernels = {.products = products}});
  nn::initialize(model->parameters(), 3);
  return model;
}

}  // namespace terrace::generate
