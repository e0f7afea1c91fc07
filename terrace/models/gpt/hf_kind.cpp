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

Differences differences_from_gpt2(const ModelConfig& config) {
  Differences differences;
  need(differences, "positions", Positions::learned, config.positions);
  need(differences, "norm", Norm::layernorm, config.norm);
  if (config.activation == Activation::swiglu) need(differences, "activation", Activation::gelu, config.activation);
  need_none(differences, "qk_norm", config.qk_norm);
  if (config.window > 0) differences.push_back(fmt::format("model.window = 0 instead of {}", config.window));
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
  }
  return "";
}

Differences differences_from(HfKind kind, const ModelConfig& config) {
  Differences differences;
  need(differences, "positions", Positions::rotary, config.positions);
  need(differences, "norm", Norm::rmsnorm, config.norm);
  need(differences, "activation", Activation::swiglu, config.activation);
  if (kind == HfKind::qwen3 || kind == HfKind::mistral) {
    need_none(differences, "bias", config.bias);
    need_none(differences, "qkv_bias", config.qkv_bias);
  }
  return differences;
}

}  // namespace

HfKind hf_kind(const ModelConfig& config) {
  const HfKind kind = kind_after_llama(config);
  const Differences gpt2 = differences_from_gpt2(config), others = differences_from(kind, config);
  if (gpt2.empty()) return HfKind::gpt2;
  if (others.empty()) return kind;
  throw UserError::of(
      "transformers has no layout for this model: GPT-2's needs {}; {}'s needs {}; train a model of one of the two "
      "kinds, as in configs/gpt2-124m.toml and configs/llama-1b.toml",
      fmt::join(gpt2, ", "), name_of(kind), fmt::join(others, ", "));
}

}  // namespace terrace::models::gpt
