// Reads and writes config.json of GPT-2, Llama and models after it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "terrace/base/error.h"
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
  scaling["low_freq_factor"] = config.rope_low_frequency;
  scaling["high_freq_factor"] = config.rope_high_frequency;
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

// A config.json as transformers reads it: a missing key has its default. null is a value of its own, which most keys
// cannot have; a boolean that is null counts as false. Keeps which keys were looked at.
class Source {
 public:
  Source(const Json& json, std::string name) : json_(json), name_(std::move(name)) {}

  bool has(const char* key) const {
    asked_.insert(key);
    return json_.contains(key) && !json_.at(key).is_null();
  }

  // The keys that nothing has asked for and that say something.
  std::vector<std::string> unasked() const {
    std::vector<std::string> keys;
    for (const auto& [key, value] : json_.items()) {
      const bool says_nothing = value.is_null() || value == false || value == Json::object() || value == Json::array();
      if (!says_nothing && !asked_.contains(key)) keys.push_back(key);
    }
    return keys;
  }

  template <typename Value>
  Value get(const char* key, std::optional<Value> missing = std::nullopt) const {
    asked_.insert(key);
    if (!json_.contains(key)) {
      if (missing) return *missing;
      throw UserError::of("{} has no {}", name_, key);
    }
    if (json_.at(key).is_null()) {
      if constexpr (std::is_same_v<Value, bool>) return false;
      throw UserError::of(
          "{}: {} = null; {}", name_, key,
          missing ? fmt::format("write {}, which a missing key means", Json(*missing).dump()) : "write its value");
    }
    try {
      return json_.at(key).get<Value>();
    } catch (const Json::exception&) {
      throw UserError::of("{}: {} = {} is of another kind than expected", name_, key, json_.at(key).dump());
    }
  }

  // Reads a key that may be null.
  template <typename Value>
  Value get(const char* key, Value missing, Value null) const {
    return json_.contains(key) && json_.at(key).is_null() ? null : get<Value>(key, missing);
  }

  // Checks a key of which terrace supports a single value.
  template <typename Value>
  void expect(const char* key, const Value& only) const {
    const Value found = get<Value>(key, only);
    if (found != only) {
      throw UserError::of("{}: {} = {}; terrace has {} only", name_, key, Json(found).dump(), Json(only).dump());
    }
  }

 private:
  const Json& json_;
  std::string name_;
  mutable std::set<std::string> asked_ = {};
};

// Keys that say nothing of what the model computes from its weights in evaluation, or that other parts of an import
// read: tokens of the tokenizer, how other programs store, divide and train models, and what they do with other heads.
const std::set<std::string>& keys_without_effect() {
  static const std::set<std::string> keys{"_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "_name_or_path",
                                          "architectures",
                                          "auto_map",
                                          "bos_token_id",
                                          "chunk_size_feed_forward",
                                          "dtype",
                                          "eos_token_id",
                                          "finetuning_task",
                                          "gradient_checkpointing",
                                          "id2label",
                                          "is_decoder",
                                          "is_encoder_decoder",
                                          "keys_to_ignore_at_inference",
                                          "label2id",
                                          "model_type",
                                          "n_ctx",
                                          "num_labels",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "pad_token_id",
                                          "pretraining_tp",
                                          "problem_type",
                                          "return_dict",
                                          "summary_activation",
                                          "summary_first_dropout",
                                          "summary_proj_to_labels",
                                          "summary_type",
                                          "summary_use_proj",
                                          "task_specific_params",
                                          "tokenizer_class",
                                          "torch_dtype",
                                          "torchscript",
                                          "transformers_version",
                                          "use_cache",
                                          "use_return_dict"};
  return keys;
}

ModelConfig from_gpt2(const Source& source, const std::string& name) {
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

void read_rope(const Json& json, const Source& source, const std::string& name, ModelConfig& config) {
  source.expect("partial_rotary_factor", 1.0);
  config.positions = Positions::rotary;
  config.rope_theta = source.get<double>("rope_theta", 10000.0);
  // Since version 5, transformers keeps the base and the scaling in one object.
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!source.has(key)) continue;
    if (!json.at(key).is_object()) throw UserError::of("{}: {} = {} is no object", name, key, json.at(key).dump());
    const Source scaling(json.at(key), fmt::format("{}: {}", name, key));
    scaling.expect("partial_rotary_factor", 1.0);
    config.rope_theta = scaling.get<double>("rope_theta", config.rope_theta);
    const auto type = scaling.get<std::string>("rope_type", scaling.get<std::string>("type", "default"));
    if (type == "default") continue;
    if (type != "linear" && type != "llama3") {
      throw UserError::of(
          "{}: {} is \"{}\"; terrace scales rotary positions as \"linear\" or \"llama3\" only: where the model was "
          "trained without, set it to null",
          name, key, type);
    }
    config.rope_scaling = type == "linear" ? RopeScaling::linear : RopeScaling::llama3;
    config.rope_factor = scaling.get<double>("factor");
    if (type == "linear") continue;
    config.rope_low_frequency = scaling.get<double>("low_freq_factor");
    config.rope_high_frequency = scaling.get<double>("high_freq_factor");
    config.rope_original_sequence = scaling.get<int64_t>("original_max_position_embeddings");
  }
}

// Reads the keys that Llama and the models after it have in common, without biases. A missing num_key_value_heads is
// `missing_kv_heads`, 0: as many as there are heads.
ModelConfig from_common(const Json& json, const Source& source, const std::string& name, int64_t missing_kv_heads = 0) {
  source.expect<std::string>("hidden_act", "silu");
  ModelConfig config;
  config.norm = Norm::rmsnorm;
  config.activation = Activation::swiglu;
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

ModelConfig from_llama(const Json& json, const Source& source, const std::string& name) {
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
void read_window_of_qwen(const Json& json, const Source& source, const std::string& name, ModelConfig& config) {
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

ModelConfig from_qwen2(const Json& json, const Source& source, const std::string& name) {
  ModelConfig config = from_common(json, source, name, 32);
  config.qkv_bias = true;
  read_window_of_qwen(json, source, name, config);
  return config;
}

ModelConfig from_mistral(const Json& json, const Source& source, const std::string& name) {
  ModelConfig config = from_common(json, source, name, 8);
  set_window(config, source.get<int64_t>("sliding_window", 4096, config.sequence));
  return config;
}

// The keys that models with experts have in common; those of a size have no default here.
void read_experts(const Source& source, const char* number, ModelConfig& config) {
  ExpertsConfig& experts = config.experts;
  experts.number = source.get<int64_t>(number);
  experts.per_token = source.get<int64_t>("num_experts_per_tok");
  source.expect("router_jitter_noise", 0.0);
  // transformers adds a balance loss in training where output_router_logits says so, by another definition.
  source.has("router_aux_loss_coef");
  source.has("output_router_logits");
}

ModelConfig from_mixtral(const Json& json, const Source& source, const std::string& name) {
  ModelConfig config = from_common(json, source, name, 8);
  config.norm_epsilon = source.get<double>("rms_norm_eps", 1e-5);
  if (!source.has("rope_parameters")) config.rope_theta = source.get<double>("rope_theta", 1e6);
  set_window(config, source.get<int64_t>("sliding_window", config.sequence, config.sequence));
  read_experts(source, "num_local_experts", config);
  config.experts.width = config.ffn_width;
  return config;
}

// Sparse layers from the one after those of mlp_only_layers on.
void read_experts_of_qwen(const Json& json, const Source& source, const std::string& name, ModelConfig& config) {
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

ModelConfig from_qwen2_moe(const Json& json, const Source& source, const std::string& name) {
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

ModelConfig from_qwen3_moe(const Json& json, const Source& source, const std::string& name) {
  source.expect("attention_bias", false);
  ModelConfig config = from_common(json, source, name, 4);
  config.qk_norm = true;
  read_window_of_qwen(json, source, name, config);
  read_experts_of_qwen(json, source, name, config);
  return config;
}

ModelConfig from_qwen3(const Json& json, const Source& source, const std::string& name) {
  source.expect("attention_bias", false);
  ModelConfig config = from_common(json, source, name, 32);
  config.head_dim = source.get<int64_t>("head_dim", 128);
  config.qk_norm = true;
  read_window_of_qwen(json, source, name, config);
  return config;
}

}  // namespace

namespace {

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
  } else {
    json.update({{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"attention_bias", config.bias},
                 {"mlp_bias", config.bias}});
  }
  const bool windows_by_layer = kind != HfKind::mistral && kind != HfKind::mixtral && kind != HfKind::llama;
  if (windows_by_layer) json["use_sliding_window"] = config.window > 0;
  if (config.window > 0) {
    json["sliding_window"] = config.window;
    if (windows_by_layer) json["max_window_layers"] = 0;  // layers before the first with a window
  }
  return json;
}

namespace {

ModelConfig read_model(const Json& json, const Source& source, const std::string& name) {
  const auto type = source.get<std::string>("model_type");
  if (type == "gpt2") return from_gpt2(source, name);
  if (type == "llama") return from_llama(json, source, name);
  if (type == "qwen2") return from_qwen2(json, source, name);
  if (type == "qwen3") return from_qwen3(json, source, name);
  if (type == "mixtral") return from_mixtral(json, source, name);
  if (type == "qwen2_moe") return from_qwen2_moe(json, source, name);
  if (type == "qwen3_moe") return from_qwen3_moe(json, source, name);
  TERRACE_CHECK(type == "mistral", "a model_type {} that no GPT has", type);
  return from_mistral(json, source, name);
}

// Models whose stored tensors are not the weights themselves, or that compute with more than these.
void refuse_other_weights(const Source& source, const std::string& name) {
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
  const Source source(json, name);
  refuse_other_weights(source, name);
  ModelConfig config = read_model(json, source, name);
  if (unused != nullptr) {
    *unused = source.unasked();
    std::erase_if(*unused, [](const std::string& key) { return keys_without_effect().contains(key); });
  }
  return config;
}

}  // namespace terrace::models::gpt
