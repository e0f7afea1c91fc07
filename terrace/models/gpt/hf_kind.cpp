// Checks what the layouts of GPT-2, Llama and models after it need of a model.
#include "terrace/models/gpt/hf_kind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/names.h"

namespace terrace::models::gpt {
namespace {

using Differences = std::vector<std::string>;

template <typename Value>
void need(Differences& differences, const char* key, Value wanted, Value found) {
  if (wanted == found) return;
  differences.push_back(
      fmt::format("model.{} = \"{}\" instead of \"{}\"", key, config::name_of(wanted), config::name_of(found)));
}

void need_none(Differences& differences, const char* key, bool found) {
  if (found) differences.push_back(fmt::format("model.{} = false instead of true", key));
}

void need_number(Differences& differences, const char* key, int64_t wanted, int64_t found) {
  if (wanted != found) differences.push_back(fmt::format("model.{} = {} instead of {}", key, wanted, found));
}

void need_flag(Differences& differences, const char* key, bool found) {
  if (!found) differences.push_back(fmt::format("model.{} = true instead of false", key));
}

// Features that Gemma's layout alone has.
void need_no_gemma(Differences& differences, const ModelConfig& config) {
  need_none(differences, "post_norms", config.post_norms);
  need_none(differences, "scaled_embeddings", config.scaled_embeddings);
  need_number(differences, "global_every", 0, config.global_every);
  if (config.query_scalar > 0) {
    differences.push_back(fmt::format("model.query_scalar = 0 instead of {}", config.query_scalar));
  }
}

Differences differences_from_gpt2(const ModelConfig& config) {
  Differences differences;
  need(differences, "positions", Positions::learned, config.positions);
  need(differences, "norm", Norm::layernorm, config.norm);
  if (is_gated(config.activation)) need(differences, "activation", Activation::gelu, config.activation);
  need_none(differences, "qk_norm", config.qk_norm);
  need_no_gemma(differences, config);
  if (config.window > 0) differences.push_back(fmt::format("model.window = 0 instead of {}", config.window));
  need_number(differences, "experts", 0, config.experts.number);
  if (config.kv_heads != config.heads) {
    differences.push_back(fmt::format("kv_heads = heads = {} instead of {}", config.heads, config.kv_heads));
  }
  if (config.heads * config.head_dim != config.width) {
    differences.push_back(fmt::format("heads * head_dim = width = {} instead of {} * {} = {}", config.width,
                                      config.heads, config.head_dim, config.heads * config.head_dim));
  }
  return differences;
}

// The layout after Llama's whose features the model has.
HfKind kind_after_llama(const ModelConfig& config) {
  if (config.hf_layout == HfLayout::phi3) return HfKind::phi3;
  if (config.post_norms) return HfKind::gemma3;
  if (config.experts.number > 0) {
    if (config.qk_norm) return HfKind::qwen3_moe;
    return config.qkv_bias || config.experts.shared > 0 ? HfKind::qwen2_moe : HfKind::mixtral;
  }
  if (config.qk_norm) return HfKind::qwen3;
  if (config.qkv_bias) return HfKind::qwen2;
  return config.window > 0 ? HfKind::mistral : HfKind::llama;
}

std::string_view name_of(HfKind kind) {
  switch (kind) {
    case HfKind::gpt2:
      return "GPT-2";
    case HfKind::llama:
      return "Llama";
    case HfKind::qwen2:
      return "Qwen 2";
    case HfKind::qwen3:
      return "Qwen 3";
    case HfKind::mistral:
      return "Mistral";
    case HfKind::mixtral:
      return "Mixtral";
    case HfKind::qwen2_moe:
      return "Qwen 2 MoE";
    case HfKind::qwen3_moe:
      return "Qwen 3 MoE";
    case HfKind::phi3:
      return "Phi 3";
    case HfKind::gemma3:
      return "Gemma 3";
  }
  return "";
}

// The needs of the layouts with experts.
void need_experts(Differences& differences, HfKind kind, const ModelConfig& config) {
  const ExpertsConfig& experts = config.experts;
  need(differences, "router", Router::softmax, experts.router);
  need_none(differences, "router_bias", experts.bias);
  need_number(differences, "expert_groups", 1, experts.groups);
  if (experts.factor != 1) differences.push_back(fmt::format("model.router_factor = 1 instead of {}", experts.factor));
  need_none(differences, "bias", config.bias);
  if (kind == HfKind::qwen2_moe) {
    need_flag(differences, "qkv_bias", config.qkv_bias);
    if (config.heads * config.head_dim != config.width) {
      differences.push_back(
          fmt::format("heads * head_dim = width = {} instead of {} * {}", config.width, config.heads, config.head_dim));
    }
    if (experts.shared == 0) differences.emplace_back("model.shared_experts above 0");
    need_flag(differences, "shared_gate", experts.shared_gate);
    return;
  }
  need_number(differences, "shared_experts", 0, experts.shared);
  if (kind != HfKind::mixtral) return;
  need_number(differences, "dense_layers", 0, experts.dense_layers);
  need_flag(differences, "router_normalise", experts.normalise);
}

Differences differences_from(HfKind kind, const ModelConfig& config) {
  Differences differences;
  need(differences, "positions", Positions::rotary, config.positions);
  const bool gemma = kind == HfKind::gemma3;
  need(differences, "norm", gemma ? Norm::rmsnorm_1p : Norm::rmsnorm, config.norm);
  need(differences, "activation", gemma ? Activation::geglu : Activation::swiglu, config.activation);
  if (gemma) {
    need_flag(differences, "qk_norm", config.qk_norm);
    need_flag(differences, "scaled_embeddings", config.scaled_embeddings);
    // Positions of local layers are never scaled there.
    const bool scaled = (config.global_every > 0 || config.window > 0) && config.local_rope_theta == 0;
    if (scaled) need(differences, "rope_scaling", RopeScaling::none, config.rope_scaling);
  } else {
    need_no_gemma(differences, config);
  }
  if (gemma || kind == HfKind::qwen3 || kind == HfKind::mistral || kind == HfKind::phi3) {
    need_none(differences, "bias", config.bias);
    need_none(differences, "qkv_bias", config.qkv_bias);
  }
  if (kind == HfKind::phi3 || gemma) {
    need_number(differences, "experts", 0, config.experts.number);
  } else if (config.experts.number > 0) {
    need_experts(differences, kind, config);
  }
  if (kind == HfKind::qwen3_moe || kind == HfKind::mixtral) need_none(differences, "qkv_bias", config.qkv_bias);
  if (kind == HfKind::phi3) {
    need_none(differences, "qk_norm", config.qk_norm);
    need(differences, "rope_scaling", RopeScaling::none, config.rope_scaling);
  }
  return differences;
}

}  // namespace

HfKind hf_kind(const ModelConfig& config) {
  const HfKind kind = kind_after_llama(config);
  const Differences gpt2 = differences_from_gpt2(config), others = differences_from(kind, config);
  const bool chosen = config.hf_layout != HfLayout::automatic;
  if (gpt2.empty() && !chosen) return HfKind::gpt2;
  if (others.empty()) return kind;
  if (chosen) {
    throw UserError::of(
        "model.hf_layout = \"{}\", but {}'s layout needs {}; export with hf_layout = \"auto\", or train a model of "
        "this "
        "kind",
        config::name_of(config.hf_layout), name_of(kind), fmt::join(others, ", "));
  }
  throw UserError::of(
      "transformers has no layout for this model: GPT-2's needs {}; {}'s needs {}; train a model of one of the two "
      "kinds, as in configs/gpt2-124m.toml and configs/llama-1b.toml",
      fmt::join(gpt2, ", "), name_of(kind), fmt::join(others, ", "));
}

}  // namespace terrace::models::gpt
