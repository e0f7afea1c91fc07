// Reads config.json of GPT-2, Llama and models after it.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/models/gpt/hf_layout.h"
#include "terrace/models/gpt/hf_source.h"

namespace terrace::models::gpt {
namespace {

ModelConfig from_gpt2(const HfSource& source, const std::string& name) {
  const auto activation = source.get<std::string>("activation_function", "gelu_new");
  if (activation != "gelu" && activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    throw UserError::of("{}: activation_function = \"{}\"; terrace has \"gelu_new\" and \"gelu\" only", name,
                        activation);
  }
  source.expect("scale_attn_weights", true);
  source.expect("scale_attn_by_inverse_layer_idx", false);
  source.expect("add_cross_attention", false);
  ModelConfig config;
  config.activation = activation == "gelu" ? Activation::gelu_erf : Activation::gelu;
  config.layers = source.get<int64_t>("n_layer");
  config.width = source.get<int64_t>("n_embd");
  config.heads = config.kv_heads = source.get<int64_t>("n_head");
  config.sequence = source.get<int64_t>("n_positions");
  config.vocabulary = source.get<int64_t>("vocab_size");
  config.ffn_width = source.get<int64_t>("n_inner", 4 * config.width, 4 * config.width);
  config.norm_epsilon = source.get<double>("layer_norm_epsilon", 1e-5);
  config.tied_head = source.get<bool>("tie_word_embeddings", true);
  config.attention_dropout = source.get<double>("attn_pdrop", 0.1);
  config.init_std = source.get<double>("initializer_range", 0.02);
  config.dropout = source.get<double>("resid_pdrop", 0.1);
  source.expect("embd_pdrop", config.dropout);
  return config;
}

// A missing attention_factor is computed from mscale and mscale_all_dim, as in DeepSeek's models, or else derived.
void read_yarn(const HfSource& scaling, ModelConfig& config) {
  config.rope_scaling = RopeScaling::yarn;
  config.rope_beta_slow = scaling.get<double>("beta_slow", 1.0, 1.0);
  config.rope_beta_fast = scaling.get<double>("beta_fast", 32.0, 32.0);
  config.rope_original_sequence =
      scaling.get<int64_t>("original_max_position_embeddings", config.sequence, config.sequence);
  config.rope_truncate = scaling.get<bool>("truncate", true);
  const auto above = scaling.get<double>("mscale", 0.0, 0.0), below = scaling.get<double>("mscale_all_dim", 0.0, 0.0);
  const double derived = above != 0 && below != 0 ? yarn_attention_factor(config.rope_factor, above) /
                                                        yarn_attention_factor(config.rope_factor, below)
                                                  : yarn_attention_factor(config.rope_factor);
  config.rope_attention_factor = scaling.get<double>("attention_factor", derived, derived);
}

void read_rope(const Json& json, const HfSource& source, const std::string& name, ModelConfig& config) {
  source.expect("partial_rotary_factor", 1.0);
  config.positions = Positions::rotary;
  config.rope_theta = source.get<double>("rope_theta", 10000.0);
  // Since version 5, transformers keeps the base and the scaling in one object.
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!source.has(key)) continue;
    if (!json.at(key).is_object()) throw UserError::of("{}: {} = {} is no object", name, key, json.at(key).dump());
    const HfSource scaling(json.at(key), fmt::format("{}: {}", name, key));
    scaling.expect("partial_rotary_factor", 1.0);
    config.rope_theta = scaling.get<double>("rope_theta", config.rope_theta);
    const auto type = scaling.get<std::string>("rope_type", scaling.get<std::string>("type", "default"));
    if (type == "default") continue;
    if (type != "linear" && type != "llama3" && type != "yarn") {
      throw UserError::of(
          "{}: {} is \"{}\"; terrace scales rotary positions as \"linear\", \"llama3\" or \"yarn\" only: where the "
          "model was trained without, set it to null",
          name, key, type);
    }
    config.rope_factor = scaling.get<double>("factor");
    if (type == "yarn") {
      read_yarn(scaling, config);
      continue;
    }
    config.rope_scaling = type == "linear" ? RopeScaling::linear : RopeScaling::llama3;
    if (type == "linear") continue;
    config.rope_low_frequency = scaling.get<double>("low_freq_factor");
    config.rope_high_frequency = scaling.get<double>("high_freq_factor");
    config.rope_original_sequence = scaling.get<int64_t>("original_max_position_embeddings");
  }
}

// Reads the keys that Llama and the models after it have in common, without biases. A missing num_key_value_heads is
// `missing_kv_heads`, 0: as many as there are heads. The activation is the caller's.
ModelConfig from_all(const Json& json, const HfSource& source, const std::string& name, int64_t missing_kv_heads) {
  ModelConfig config;
  config.norm = Norm::rmsnorm;
  config.layers = source.get<int64_t>("num_hidden_layers");
  config.width = source.get<int64_t>("hidden_size");
  config.heads = source.get<int64_t>("num_attention_heads");
  config.kv_heads =
      source.get<int64_t>("num_key_value_heads", missing_kv_heads > 0 ? missing_kv_heads : config.heads, config.heads);
  config.head_dim = source.get<int64_t>("head_dim", 0, 0);
  config.ffn_width = source.get<int64_t>("intermediate_size");
  config.sequence = source.get<int64_t>("max_position_embeddings");
  config.vocabulary = source.get<int64_t>("vocab_size");
  config.norm_epsilon = source.get<double>("rms_norm_eps", 1e-6);
  read_rope(json, source, name, config);
  config.tied_head = source.get<bool>("tie_word_embeddings", false);
  config.attention_dropout = source.get<double>("attention_dropout", 0.0);
  config.init_std = source.get<double>("initializer_range", 0.02);
  config.bias = false;
  return config;
}

ModelConfig from_common(const Json& json, const HfSource& source, const std::string& name,
                        int64_t missing_kv_heads = 0) {
  source.expect<std::string>("hidden_act", "silu");
  ModelConfig config = from_all(json, source, name, missing_kv_heads);
  config.activation = Activation::swiglu;
  return config;
}

ModelConfig from_llama(const Json& json, const HfSource& source, const std::string& name) {
  ModelConfig config = from_common(json, source, name);
  config.bias = source.get<bool>("attention_bias", false);
  if (source.get<bool>("mlp_bias", false) != config.bias) {
    throw UserError::of("{}: attention_bias = {} and mlp_bias = {}; terrace has biases in all linear layers or in none",
                        name, config.bias, !config.bias);
  }
  return config;
}

// A window that holds the whole sequence is none.
void set_window(ModelConfig& config, int64_t window) { config.window = window < config.sequence ? window : 0; }

// The first max_window_layers layers see the whole sequence, unless layer_types says for each layer what it sees.
void read_window_of_qwen(const Json& json, const HfSource& source, const std::string& name, ModelConfig& config) {
  const bool is_null = json.contains("sliding_window") && !source.has("sliding_window");
  source.has("max_window_layers");
  source.has("layer_types");
  if (!source.get<bool>("use_sliding_window", false) || (is_null && !source.has("layer_types"))) return;
  int64_t whole = 0;
  if (source.has("layer_types")) {
    const Json& types = json.at("layer_types");
    whole = std::count(types.begin(), types.end(), Json("full_attention"));
  } else {
    whole = std::min(source.get<int64_t>("max_window_layers", 28), config.layers);
  }
  if (whole != 0 && whole != config.layers) {
    throw UserError::of(
        "{}: {} of {} layers have no sliding window (max_window_layers or layer_types); terrace has one window for all "
        "layers or none",
        name, whole, config.layers);
  }
  if (whole == 0) set_window(config, source.get<int64_t>("sliding_window", 4096));
}

ModelConfig from_qwen2(const Json& json, const HfSource& source, const std::string& name) {
  ModelConfig config = from_common(json, source, name, 32);
  config.qkv_bias = true;
  read_window_of_qwen(json, source, name, config);
  return config;
}

ModelConfig from_mistral(const Json& json, const HfSource& source, const std::string& name) {
  ModelConfig config = from_common(json, source, name, 8);
  set_window(config, source.get<int64_t>("sliding_window", 4096, config.sequence));
  return config;
}

// The keys that models with experts have in common; those of a size have no default here.
void read_experts(const HfSource& source, const char* number, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.number = source.get<int64_t>(number);
  experts.per_token = source.get<int64_t>("num_experts_per_tok");
  source.expect("router_jitter_noise", 0.0);
  // transformers adds a balance loss in training where output_router_logits says so, by another definition.
  source.has("router_aux_loss_coef");
  source.has("output_router_logits");
}

ModelConfig from_mixtral(const Json& json, const HfSource& source, const std::string& name) {
  ModelConfig config = from_common(json, source, name, 8);
  config.norm_epsilon = source.get<double>("rms_norm_eps", 1e-5);
  if (!source.has("rope_parameters")) config.rope_theta = source.get<double>("rope_theta", 1e6);
  set_window(config, source.get<int64_t>("sliding_window", config.sequence, config.sequence));
  read_experts(source, "num_local_experts", config);
  config.experts.width = config.ffn_width;
  return config;
}

// Sparse layers from the one after those of mlp_only_layers on.
void read_experts_of_qwen(const Json& json, const HfSource& source, const std::string& name, ModelConfig& config) {
  read_experts(source, "num_experts", config);
  source.expect<int64_t>("decoder_sparse_step", 1);
  ExpertsConfig& experts = config.experts;
  experts.width = source.get<int64_t>("moe_intermediate_size");
  experts.normalise = source.get<bool>("norm_topk_prob", false);
  if (!source.has("mlp_only_layers")) return;
  const auto dense = source.get<std::vector<int64_t>>("mlp_only_layers");
  for (const int64_t layer : dense) {
    if (layer < std::ssize(dense)) continue;
    throw UserError::of("{}: mlp_only_layers = {}; terrace has dense layers before all sparse ones only", name,
                        json.at("mlp_only_layers").dump());
  }
  experts.dense_layers = std::ssize(dense);
}

ModelConfig from_qwen2_moe(const Json& json, const HfSource& source, const std::string& name) {
  source.expect("qkv_bias", true);
  ModelConfig config = from_common(json, source, name, 16);
  config.qkv_bias = true;
  read_window_of_qwen(json, source, name, config);
  read_experts_of_qwen(json, source, name, config);
  ExpertsConfig& experts = config.experts;
  const auto shared = source.get<int64_t>("shared_expert_intermediate_size");
  if (shared == 0 || shared % experts.width != 0) {
    throw UserError::of(
        "{}: shared_expert_intermediate_size = {} is no multiple of moe_intermediate_size = {}; terrace's shared "
        "experts are some times as wide as one expert",
        name, shared, experts.width);
  }
  experts.shared = shared / experts.width;
  experts.shared_gate = true;
  return config;
}

ModelConfig from_qwen3_moe(const Json& json, const HfSource& source, const std::string& name) {
  source.expect("attention_bias", false);
  ModelConfig config = from_common(json, source, name, 4);
  config.qk_norm = true;
  read_window_of_qwen(json, source, name, config);
  read_experts_of_qwen(json, source, name, config);
  return config;
}

ModelConfig from_phi3(const Json& json, const HfSource& source, const std::string& name) {
  source.expect("attention_bias", false);
  ModelConfig config = from_common(json, source, name);
  if (config.rope_scaling != RopeScaling::none) {
    throw UserError::of(
        "{}: rope_scaling of a Phi 3 is read as \"longrope\" whatever its type says, and terrace does not have that; "
        "set it to null for texts of at most original_max_position_embeddings tokens",
        name);
  }
  source.has("original_max_position_embeddings");  // of longrope
  config.norm_epsilon = source.get<double>("rms_norm_eps", 1e-5);
  config.dropout = source.get<double>("resid_pdrop", 0.0);
  source.expect("embd_pdrop", config.dropout);
  set_window(config, source.get<int64_t>("sliding_window", config.sequence, config.sequence));
  config.hf_layout = HfLayout::phi3;
  return config;
}

ModelConfig from_qwen3(const Json& json, const HfSource& source, const std::string& name) {
  source.expect("attention_bias", false);
  ModelConfig config = from_common(json, source, name, 32);
  config.head_dim = source.get<int64_t>("head_dim", 128);
  config.qk_norm = true;
  read_window_of_qwen(json, source, name, config);
  return config;
}

// The number n for which every n-th layer is global; 0: none is.
int64_t global_layers(const Json& json, const HfSource& source, const std::string& name, int64_t layers) {
  source.has("_sliding_window_pattern");
  source.has("sliding_window_pattern");
  if (!source.has("layer_types")) {
    const auto every = source.get<int64_t>("sliding_window_pattern", 6);
    return every > layers ? 0 : every;
  }
  const Json& types = json.at("layer_types");
  const auto first = std::find(types.begin(), types.end(), Json("full_attention"));
  const int64_t every = first == types.end() ? 0 : std::distance(types.begin(), first) + 1;
  bool regular = types.is_array() && static_cast<int64_t>(types.size()) == layers;
  for (int64_t layer = 0; regular && layer < layers; ++layer) {
    regular = types[static_cast<size_t>(layer)] == (sees_all(layer, every) ? "full_attention" : "sliding_attention");
  }
  if (!regular) {
    throw UserError::of(
        "{}: layer_types = {}; terrace has models of which every n-th layer is \"full_attention\" and all others are "
        "\"sliding_attention\"",
        name, types.dump());
  }
  return every;
}

// Since version 5, transformers keeps the positions of both kinds of layers in one object; returns the older keys.
Json with_older_positions(const Json& json) {
  if (!json.contains("rope_parameters") || !json.at("rope_parameters").is_object()) return json;
  Json older = json;
  const Json& positions = json.at("rope_parameters");
  if (positions.contains("full_attention")) older["rope_parameters"] = positions.at("full_attention");
  return older;
}

double local_theta(const Json& json, const HfSource& source, const std::string& name) {
  const auto theta = source.get<double>("rope_local_base_freq", 10000.0);
  if (!json.contains("rope_parameters") || !json.at("rope_parameters").is_object()) return theta;
  const Json& positions = json.at("rope_parameters");
  if (!positions.contains("sliding_attention")) return theta;
  return HfSource(positions.at("sliding_attention"), name + ": rope_parameters").get<double>("rope_theta", theta);
}

ModelConfig from_gemma3(const Json& json, const HfSource& source, const std::string& name) {
  source.expect<std::string>("hidden_activation", "gelu_pytorch_tanh");
  source.has("hidden_act");  // transformers does not read it
  source.expect("attention_bias", false);
  source.expect("use_bidirectional_attention", false);
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (source.has(key))
      throw UserError::of("{}: {} = {}; terrace does not cap scores or logits", name, key, json.at(key).dump());
  }
  ModelConfig config = from_all(with_older_positions(json), source, name, 4);
  if (!json.contains("rope_theta") && !json.contains("rope_parameters")) config.rope_theta = 1e6;
  config.head_dim = source.get<int64_t>("head_dim", 256);
  config.tied_head = source.get<bool>("tie_word_embeddings", true);
  config.norm = Norm::rmsnorm_1p;
  config.activation = Activation::geglu;
  config.qk_norm = config.post_norms = config.scaled_embeddings = true;
  const auto scalar = source.get<double>("query_pre_attn_scalar", 256.0);
  config.query_scalar = scalar == static_cast<double>(config.head_dim) ? 0 : scalar;
  const auto window = source.get<int64_t>("sliding_window", 4096, config.sequence);
  const int64_t every = global_layers(json, source, name, config.layers);
  if (every != 1) set_window(config, window);
  config.global_every = every == 1 ? 0 : every;
  if (every == 0) {
    config.rope_theta = local_theta(json, source, name);
    config.rope_scaling = RopeScaling::none;
  } else if (every > 1) {
    config.local_rope_theta = local_theta(json, source, name);
  }
  return config;
}

ModelConfig read_model(const Json& json, const HfSource& source, const std::string& name) {
  const auto type = source.get<std::string>("model_type");
  if (type == "gpt2") return from_gpt2(source, name);
  if (type == "llama") return from_llama(json, source, name);
  if (type == "qwen2") return from_qwen2(json, source, name);
  if (type == "qwen3") return from_qwen3(json, source, name);
  if (type == "mixtral") return from_mixtral(json, source, name);
  if (type == "qwen2_moe") return from_qwen2_moe(json, source, name);
  if (type == "qwen3_moe") return from_qwen3_moe(json, source, name);
  if (type == "phi3") return from_phi3(json, source, name);
  if (type == "gemma3_text") return from_gemma3(json, source, name);
  TERRACE_CHECK(type == "mistral", "a model_type {} that no GPT has", type);
  return from_mistral(json, source, name);
}

// Models whose stored tensors are not the weights themselves, or that compute with more than these.
void refuse_other_weights(const HfSource& source, const std::string& name) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (!source.has(key)) continue;
    throw UserError::of(
        "{} has a {}: its weights are quantized, and terrace reads fp32, bf16 and fp16; write them in one of these "
        "with "
        "the program that quantized them, or take the model that it was made of",
        name, key);
  }
}

}  // namespace

ModelConfig config_of_hf(const Json& json, const std::string& name, std::vector<std::string>* unused) {
  const HfSource source(json, name);
  refuse_other_weights(source, name);
  ModelConfig config = read_model(json, source, name);
  if (unused != nullptr) {
    *unused = source.unasked();
    std::erase_if(*unused, [](const std::string& key) { return hf_keys_without_effect().contains(key); });
  }
  return config;
}

}  // namespace terrace::models::gpt
