// Writes config.json of GPT-2, Llama and models after it.
#include <cmath>

#include "terrace/config/names.h"
#include "terrace/models/gpt/hf_kind.h"
#include "terrace/models/gpt/hf_layout.h"

namespace terrace::models::gpt {
namespace {

Json gpt2_config(const ModelConfig& config) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", config.activation == Activation::gelu_erf ? "gelu" : "gelu_new"},
          {"attn_pdrop", config.attention_dropout},
          {"embd_pdrop", config.dropout},
          {"resid_pdrop", config.dropout},
          {"initializer_range", config.init_std},
          {"layer_norm_epsilon", config.norm_epsilon},
          {"n_ctx", config.sequence},
          {"n_embd", config.width},
          {"n_head", config.heads},
          {"n_inner", config.ffn_width},
          {"n_layer", config.layers},
          {"n_positions", config.sequence},
          {"scale_attn_weights", true},
          {"tie_word_embeddings", config.tied_head},
          {"use_cache", true},
          {"vocab_size", config.vocabulary}};
}

Json rope_scaling(const ModelConfig& config) {
  if (config.rope_scaling == RopeScaling::none) return nullptr;
  Json scaling = {{"rope_type", config::name_of(config.rope_scaling)}, {"factor", config.rope_factor}};
  if (config.rope_scaling == RopeScaling::linear) return scaling;
  if (config.rope_scaling == RopeScaling::yarn) {
    scaling["beta_slow"] = config.rope_beta_slow;
    scaling["beta_fast"] = config.rope_beta_fast;
    scaling["attention_factor"] = config.rope_attention_factor;
    if (!config.rope_truncate) scaling["truncate"] = false;
  } else {
    scaling["low_freq_factor"] = config.rope_low_frequency;
    scaling["high_freq_factor"] = config.rope_high_frequency;
  }
  scaling["original_max_position_embeddings"] = config.rope_original_sequence;
  return scaling;
}

// The keys that Llama and the models after it have in common.
Json common_config(const ModelConfig& config) {
  return {{"attention_dropout", config.attention_dropout},
          {"head_dim", config.head_dim},
          {"hidden_act", "silu"},
          {"hidden_size", config.width},
          {"initializer_range", config.init_std},
          {"intermediate_size", config.ffn_width},
          {"max_position_embeddings", config.sequence},
          {"num_attention_heads", config.heads},
          {"num_hidden_layers", config.layers},
          {"num_key_value_heads", config.kv_heads},
          {"rms_norm_eps", config.norm_epsilon},
          {"rope_scaling", rope_scaling(config)},
          {"rope_theta", config.rope_theta},
          {"tie_word_embeddings", config.tied_head},
          {"use_cache", true},
          {"vocab_size", config.vocabulary}};
}

// Layers without a window are local ones where their positions are.
Json gemma3_config(const ModelConfig& config) {
  const double scalar = config.query_scalar > 0 ? config.query_scalar : static_cast<double>(config.head_dim);
  Json json = common_config(config);
  json.erase("hidden_act");
  json.update(
      {{"architectures", {"Gemma3ForCausalLM"}},
       {"model_type", "gemma3_text"},
       {"attention_bias", false},
       {"attn_logit_softcapping", nullptr},
       {"final_logit_softcapping", nullptr},
       {"hidden_activation", "gelu_pytorch_tanh"},
       {"query_pre_attn_scalar", scalar == std::floor(scalar) ? Json(static_cast<int64_t>(scalar)) : Json(scalar)},
       {"rope_local_base_freq", config.local_rope_theta > 0 ? config.local_rope_theta : config.rope_theta},
       {"sliding_window", config.window > 0 ? config.window : config.sequence},
       {"use_bidirectional_attention", false}});
  json["layer_types"] = Json::array();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const bool local = config.global_every > 0 ? !sees_all(layer, config.global_every) : config.window > 0;
    json["layer_types"].push_back(local ? "sliding_attention" : "full_attention");
  }
  return json;
}

// The keys of Qwen 2 MoE and Qwen 3 MoE.
Json qwen_experts(const ModelConfig& config, HfKind kind) {
  const ExpertsConfig& experts = config.experts;
  Json json = {{"num_experts", experts.number},
               {"num_experts_per_tok", experts.per_token},
               {"moe_intermediate_size", experts.width},
               {"norm_topk_prob", experts.normalise},
               {"decoder_sparse_step", 1},
               {"mlp_only_layers", Json::array()}};
  for (int64_t layer = 0; layer < experts.dense_layers; ++layer) json["mlp_only_layers"].push_back(layer);
  if (kind == HfKind::qwen3_moe) {
    json.update({{"architectures", {"Qwen3MoeForCausalLM"}}, {"model_type", "qwen3_moe"}, {"attention_bias", false}});
  } else {
    json.update({{"architectures", {"Qwen2MoeForCausalLM"}},
                 {"model_type", "qwen2_moe"},
                 {"qkv_bias", true},
                 {"shared_expert_intermediate_size", experts.shared * experts.width}});
  }
  return json;
}

}  // namespace

Json hf_config(const ModelConfig& config) {
  const HfKind kind = hf_kind(config);
  if (kind == HfKind::gpt2) return gpt2_config(config);
  if (kind == HfKind::gemma3) return gemma3_config(config);
  Json json = common_config(config);
  if (kind == HfKind::qwen2) {
    json.update({{"architectures", {"Qwen2ForCausalLM"}}, {"model_type", "qwen2"}});
  } else if (kind == HfKind::qwen3) {
    json.update({{"architectures", {"Qwen3ForCausalLM"}}, {"model_type", "qwen3"}, {"attention_bias", false}});
  } else if (kind == HfKind::qwen2_moe || kind == HfKind::qwen3_moe) {
    json.update(qwen_experts(config, kind));
  } else if (kind == HfKind::mixtral) {
    json.update({{"architectures", {"MixtralForCausalLM"}},
                 {"model_type", "mixtral"},
                 {"intermediate_size", config.experts.width},
                 {"num_local_experts", config.experts.number},
                 {"num_experts_per_tok", config.experts.per_token},
                 {"sliding_window", nullptr}});
  } else if (kind == HfKind::mistral) {
    json.update({{"architectures", {"MistralForCausalLM"}}, {"model_type", "mistral"}});
  } else if (kind == HfKind::phi3) {
    // transformers' own values of missing tokens lie outside of a small vocabulary.
    json.update({{"architectures", {"Phi3ForCausalLM"}},
                 {"model_type", "phi3"},
                 {"resid_pdrop", config.dropout},
                 {"embd_pdrop", config.dropout},
                 {"original_max_position_embeddings", config.sequence},
                 {"sliding_window", nullptr},
                 {"bos_token_id", nullptr},
                 {"eos_token_id", nullptr},
                 {"pad_token_id", nullptr}});
  } else {
    json.update({{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"attention_bias", config.bias},
                 {"mlp_bias", config.bias}});
  }
  const bool windows_by_layer =
      kind != HfKind::mistral && kind != HfKind::mixtral && kind != HfKind::llama && kind != HfKind::phi3;
  if (windows_by_layer) json["use_sliding_window"] = config.window > 0;
  if (config.window > 0) {
    json["sliding_window"] = config.window;
    if (windows_by_layer) json["max_window_layers"] = 0;  // layers before the first with a window
  }
  return json;
}

}  // namespace terrace::models::gpt
