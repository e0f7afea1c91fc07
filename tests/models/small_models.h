// Defines small models that together use every option, and passes through them.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <string>
#include <vector>

#include "terrace/models/gpt/model.h"
#include "terrace/models/model.h"
#include "terrace/ops/recompute.h"

namespace terrace::models {

struct SmallModel {
  std::string name;
  models::gpt::ModelConfig config;
};

// Llama with positions scaled so that of the wavelengths 6, 30, 140 and 664 one stays, one is stretched by 1 to 4 and
// two are stretched by 4.
inline models::gpt::ModelConfig small_llama3(models::gpt::ModelConfig llama) {
  llama.rope_theta = 500.0;
  llama.rope_scaling = models::gpt::RopeScaling::llama3;
  llama.rope_factor = 4.0;
  llama.rope_original_sequence = 64;
  return llama;
}

// Llama with positions scaled so that of its four pairs one stays, one is stretched by half and two by 4.
inline models::gpt::ModelConfig small_yarn(models::gpt::ModelConfig llama) {
  llama.rope_theta = 500.0;
  llama.rope_scaling = models::gpt::RopeScaling::yarn;
  llama.rope_factor = 4.0;
  llama.rope_original_sequence = 64;
  llama.rope_attention_factor = models::gpt::yarn_attention_factor(4.0);
  return llama;
}

// Llama with what Gemma 3 has besides, whose second layer of three is global.
inline models::gpt::ModelConfig small_gemma3(models::gpt::ModelConfig llama) {
  llama.layers = 3;
  llama.window = 5;
  llama.global_every = 2;
  llama.rope_theta = 500.0;
  llama.local_rope_theta = 40.0;
  llama.rope_scaling = models::gpt::RopeScaling::linear;
  llama.rope_factor = 2.0;
  llama.norm = models::gpt::Norm::rmsnorm_1p;
  llama.activation = models::gpt::Activation::geglu;
  llama.query_scalar = 5.0;
  llama.qk_norm = llama.post_norms = llama.scaled_embeddings = llama.tied_head = true;
  return llama;
}

// Odd and indivisible sizes where the option allows it.
inline std::vector<SmallModel> small_models() {
  models::gpt::ModelConfig gpt2;
  gpt2.layers = 2;
  gpt2.width = 30;
  gpt2.heads = gpt2.kv_heads = 3;
  gpt2.head_dim = 10;
  gpt2.ffn_width = 77;
  gpt2.sequence = 19;
  gpt2.vocabulary = 51;
  gpt2.vocabulary_multiple = 16;
  gpt2.init_std = 0.2;
  models::gpt::ModelConfig llama = gpt2;
  llama.positions = models::gpt::Positions::rotary;
  llama.norm = models::gpt::Norm::rmsnorm;
  llama.activation = models::gpt::Activation::swiglu;
  llama.tied_head = llama.bias = false;
  llama.heads = 6;
  llama.kv_heads = 2;
  llama.head_dim = 8;
  models::gpt::ModelConfig mixed =
      gpt2;  // grouped queries with learned positions, gated with biases, heads wider than D
  mixed.layers = 1;
  mixed.heads = 4;
  mixed.kv_heads = 1;
  mixed.head_dim = 9;
  mixed.activation = models::gpt::Activation::swiglu;
  mixed.tied_head = false;
  mixed.vocabulary_multiple = 1;
  models::gpt::ModelConfig qwen2 = llama;
  qwen2.qkv_bias = qwen2.tied_head = true;
  models::gpt::ModelConfig qwen3 = llama;
  qwen3.qk_norm = true;
  models::gpt::ModelConfig mistral = llama, windowed_qwen2 = qwen2;
  mistral.window = 7;
  windowed_qwen2.window = 2;
  models::gpt::ModelConfig mixtral = llama, qwen2_moe = qwen2, grouped = llama, qwen3_moe = qwen3;
  mixtral.ffn_width = 13;
  mixtral.experts = {.number = 5, .width = 13};
  qwen2_moe.tied_head = false;
  qwen2_moe.heads = 3;
  qwen2_moe.kv_heads = 1;
  qwen2_moe.head_dim = 10;
  qwen2_moe.experts = {.number = 4, .per_token = 3, .width = 11, .shared = 2, .shared_gate = true, .normalise = false};
  qwen3_moe.experts = {.number = 6, .per_token = 2, .width = 7, .dense_layers = 1};
  grouped.experts = {.number = 12,
                     .per_token = 3,
                     .width = 9,
                     .shared = 1,
                     .dense_layers = 1,
                     .router = models::gpt::Router::sigmoid,
                     .factor = 2.5,
                     .groups = 4,
                     .groups_kept = 2,
                     .bias = true,
                     .balance_loss = 3.0,
                     .z_loss = 0.7};
  models::gpt::ModelConfig yarn_qwen3 = small_yarn(qwen3);
  yarn_qwen3.rope_truncate = false;
  yarn_qwen3.rope_beta_slow = 0.5;
  yarn_qwen3.rope_beta_fast = 7.0;
  yarn_qwen3.rope_attention_factor = 1.25;
  models::gpt::ModelConfig erf = gpt2;
  erf.activation = models::gpt::Activation::gelu_erf;
  return {{"gpt2", gpt2},
          {"llama", llama},
          {"mixed", mixed},
          {"llama3", small_llama3(llama)},
          {"qwen2", qwen2},
          {"gpt2 with erf", erf},
          {"qwen3", qwen3},
          {"mistral", mistral},
          {"qwen2 with a window", windowed_qwen2},
          {"yarn", small_yarn(llama)},
          {"qwen3 with yarn", yarn_qwen3},
          {"gemma3", small_gemma3(llama)},
          {"mixtral", mixtral},
          {"qwen2_moe", qwen2_moe},
          {"qwen3_moe", qwen3_moe},
          {"experts in groups", grouped}};
}

inline Batch some_batch(const models::gpt::ModelConfig& config, int64_t sequences, uint64_t seed = 0) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(12 + seed);
  const auto integers = at::TensorOptions().dtype(at::kLong);
  Batch batch;
  batch.tensors["tokens"] = at::randint(0, config.vocabulary, {sequences, config.sequence}, generator, integers);
  batch.tensors["targets"] = at::randint(0, config.vocabulary, {sequences, config.sequence}, generator, integers);
  batch["targets"].narrow(1, config.sequence / 2, 2).fill_(-1);
  batch.samples = at::arange(sequences, integers);
  return batch;
}

// Documents of five tokens; positions start at 0 in each document.
inline void cut_into_documents(Batch& batch) {
  const at::Tensor index = at::arange(batch["tokens"].size(1), at::kLong);
  batch.tensors["documents"] = index.div(5, "floor").expand(batch["tokens"].sizes()).contiguous();
  batch.tensors["positions"] = index.remainder(5).expand(batch["tokens"].sizes()).contiguous();
}

// The hidden states that enter the head. If `full` is set, whole layers are recomputed. The halves of the given layers
// are computed in two calls.
inline at::Tensor hidden_of(Model& model, const Batch& batch, const Pass& pass, bool full = false,
                            const std::set<int64_t>& halved = {}) {
  at::Tensor hidden = model.forward(0, 1, {}, batch, pass).front();
  for (int64_t unit = 1, end = 0; unit + 1 < model.num_units(); unit = end) {
    end = unit % 2 == 1 && !halved.contains(unit / 2) ? unit + 2 : unit + 1;
    const auto segment = [&model, unit, end, batch, pass](const at::Tensor& input) {
      return model.forward(unit, end, {input}, batch, pass).front();
    };
    hidden = full ? ops::recompute(segment, hidden) : segment(hidden);
  }
  return hidden;
}

// [B, T, vocabulary] in fp32.
inline at::Tensor logits_of(Model& model, const at::Tensor& hidden) {
  return model.outputs(model.num_units() - 1, {hidden}, {}, {}).at("logits");
}

inline at::Tensor loss_of(Model& model, const at::Tensor& hidden, const Batch& batch, const Pass& pass) {
  return model.loss(model.num_units() - 1, {hidden}, batch, pass).front();
}

// A forward and backward pass; gradients are added to the parameters' buffers.
inline at::Tensor loss_and_gradients(Model& model, const Batch& batch, const Pass& pass, bool full = false,
                                     const std::set<int64_t>& halved = {}) {
  const at::Tensor loss = loss_of(model, hidden_of(model, batch, pass, full, halved), batch, pass);
  torch::autograd::backward({loss}, {});
  nn::collect_autograd_gradients(model.parameters());
  return loss.detach();
}

inline std::unique_ptr<Model> initialized(const models::gpt::ModelConfig& config, at::ScalarType type = at::kFloat,
                                          uint64_t seed = 3) {
  // For a model of this size, several threads are slower than one.
  at::set_num_threads(1);
  auto model = gpt::build_model(config, {.type = type});
  nn::initialize(model->parameters(), seed);
  nn::initialize(model->buffers(), seed);
  nn::allocate_gradients(model->parameters(), type == at::kDouble ? at::kDouble : at::kFloat);
  return model;
}

}  // namespace terrace::models
