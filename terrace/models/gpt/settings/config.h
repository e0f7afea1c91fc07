// [model] of a GPT as a plain struct, with the default of every key.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "terrace/base/context_places.h"
#include "terrace/config/config.h"
#include "terrace/config/names.h"

namespace terrace::models::gpt {

enum class Positions { learned, rotary };
enum class RopeScaling { none, linear, llama3 };
enum class Norm { layernorm, rmsnorm };
enum class Activation { gelu, swiglu, gelu_erf };

struct ModelConfig {
  int64_t layers = 0;
  int64_t width = 0;  // hidden size
  int64_t heads = 0;
  int64_t kv_heads = 0;   // fewer than heads: grouped-query attention; 0 in the file means heads
  int64_t head_dim = 0;   // 0 in the file means width / heads
  int64_t ffn_width = 0;  // 0 in the file means 4 * width
  int64_t sequence = 0;   // tokens
  int64_t vocabulary = 0;
  int64_t vocabulary_multiple = 128;  // the rows of the embedding are padded to a multiple of this
  int64_t window = 0;                 // tokens that a token attends to, itself included; 0: all before it
  Positions positions = Positions::learned;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling = RopeScaling::none;
  // Settings of scaled rotary positions, with the values of Llama 3.1; all but the factor belong to llama3
  // (ops/attention/attention.h).
  double rope_factor = 8.0;
  double rope_low_frequency = 1.0, rope_high_frequency = 4.0;
  int64_t rope_original_sequence = 8192;  // tokens
  Norm norm = Norm::layernorm;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::gelu;
  bool qk_norm = false;  // RMS norm of each head's queries and keys
  bool tied_head = true;
  bool bias = true;
  bool qkv_bias = false;           // of queries, keys and values alone, where bias is false
  double dropout = 0.0;            // on embeddings and residuals
  double attention_dropout = 0.0;  // above 0: an unfused path
  double init_std = 0.02;          // the deviation of output projections is divided by sqrt(2 * layers)

  int64_t padded_vocabulary() const {
    return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
  }
  bool has_window() const { return window > 0 && window < sequence; }  // whether some token does not see all before it
  bool has_qkv_bias() const { return bias || qkv_bias; }
  bool operator==(const ModelConfig&) const = default;
};

// Replaces the zeros that mean "derive it" by the derived values.
void derive(ModelConfig& model);

// [model] of a configuration of this family. The const overload throws UserError if the family is another one.
inline ModelConfig& model_of(config::Config& config) { return config.model.get<ModelConfig>(); }
const ModelConfig& model_of(const config::Config& config);

// The positions of each of layout.context ranks: stripes, unless a query sees a window alone.
ContextPlaces positions_over_ranks(const config::Config& config);

}  // namespace terrace::models::gpt

namespace terrace::config {

template <>
struct Names<models::gpt::Positions> {
  static constexpr std::array<std::string_view, 2> words = {"learned", "rotary"};
};
template <>
struct Names<models::gpt::RopeScaling> {
  static constexpr std::array<std::string_view, 3> words = {"none", "linear", "llama3"};
};
template <>
struct Names<models::gpt::Norm> {
  static constexpr std::array<std::string_view, 2> words = {"layernorm", "rmsnorm"};
};
template <>
struct Names<models::gpt::Activation> {
  static constexpr std::array<std::string_view, 3> words = {"gelu", "swiglu", "gelu_erf"};
};

}  // namespace terrace::config
