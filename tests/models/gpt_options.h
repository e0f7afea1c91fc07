// Writes a model's options for the GPT in PyTorch (gpt_cases.py), and gives parameters values that hide no error.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/nn/module.h"

namespace terrace::models {

inline Json options_of(const models::gpt::ModelConfig& config) {
  return {{"layers", config.layers},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"vocabulary", config.vocabulary},
          {"window", config.window},
          {"positions", config.positions == models::gpt::Positions::learned ? "learned" : "rotary"},
          {"theta", config.rope_theta},
          {"rope_scaling", config::name_of(config.rope_scaling)},
          {"rope_factor", config.rope_factor},
          {"rope_low_frequency", config.rope_low_frequency},
          {"rope_high_frequency", config.rope_high_frequency},
          {"rope_original_sequence", config.rope_original_sequence},
          {"rope_beta_slow", config.rope_beta_slow},
          {"rope_beta_fast", config.rope_beta_fast},
          {"rope_truncate", config.rope_truncate},
          {"rope_attention_factor", config.rope_attention_factor},
          {"norm", config::name_of(config.norm)},
          {"global_every", config.global_every},
          {"local_theta", config.local_rope_theta},
          {"post_norms", config.post_norms},
          {"query_scalar", config.query_scalar},
          {"scaled_embeddings", config.scaled_embeddings},
          {"norm_epsilon", config.norm_epsilon},
          {"activation", config::name_of(config.activation)},
          {"qk_norm", config.qk_norm},
          {"tied_head", config.tied_head},
          {"experts", config.experts.number},
          {"experts_per_token", config.experts.per_token},
          {"shared_experts", config.experts.shared},
          {"shared_gate", config.experts.shared_gate},
          {"dense_layers", config.experts.dense_layers},
          {"router", config::name_of(config.experts.router)},
          {"router_normalise", config.experts.normalise},
          {"router_factor", config.experts.factor},
          {"expert_groups", config.experts.groups},
          {"expert_groups_kept", config.experts.groups_kept},
          {"balance_loss", config.experts.balance_loss},
          {"z_loss", config.experts.z_loss}};
}

// Whether the last bits of hidden states decide which experts a token gets, as they do in 16-bit types: then results of
// other orders of sums are of other choices.
inline bool chooses_by_last_bits(const models::gpt::ModelConfig& config, at::ScalarType type) {
  return config.experts.number > 0 && c10::elementSize(type) < c10::elementSize(at::kFloat);
}

// Ones and zeros would hide an error in a norm's weight or a bias.
inline void perturb(const std::vector<nn::Parameter*>& parameters) {
  at::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(30);
  for (nn::Parameter* parameter : parameters) {
    if (parameter->value.dim() != 1) continue;
    at::Tensor noise = at::empty(parameter->value.sizes());
    parameter->value.add_(noise.normal_(0, 0.2, generator));
  }
}

}  // namespace terrace::models
