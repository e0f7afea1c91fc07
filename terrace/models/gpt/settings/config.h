// [model] of a GPT as a plain struct, with the default of every key.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "terrace/base/context_places.h"
#include "terrace/base/global_layers.h"
#include "terrace/config/config.h"
#include "terrace/config/names.h"

namespace terrace::models::gpt {

enum class Positions { learned, rotary };
enum class RopeScaling { none, linear, llama3, yarn };
enum class Norm { layernorm, rmsnorm, rmsnorm_1p };
enum class HfLayout { automatic, phi3 };
enum class Activation { gelu, swiglu, gelu_erf, geglu };

inline bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}
enum class Router { softmax, sigmoid };

// The keys of sparse feed-forward layers: a router gives each token to a few of many experts (docs/experts.md).
struct ExpertsConfig {
  int64_t number = 0;        // 0: every feed-forward layer is dense
  int64_t per_token = 2;     // experts that compute a token
  int64_t width = 0;         // inner, of one expert; 0 in the file means ffn_width
  int64_t shared = 0;        // experts that compute every token, as one feed-forward layer so many times as wide
  bool shared_gate = false;  // their sum is multiplied by a sigmoid of the token
  int64_t dense_layers = 0;  // the first layers, which have a dense feed-forward of ffn_width
  Router router = Router::softmax;
  bool normalise = true;      // the weights of a token's experts are divided by their sum
  double factor = 1.0;        // of these weights
  int64_t groups = 1;         // of neighbouring experts
  int64_t groups_kept = 1;    // groups from which a token's experts come
  bool bias = false;          // added to the scores for the choice alone
  double bias_rate = 0.001;   // by which a step moves it towards even loads
  double balance_loss = 0.0;  // factor of the balance loss of each sequence
  double z_loss = 0.0;        // factor of the mean square of logsumexp of the router's scores

  bool operator==(const ExpertsConfig&) const = default;
};

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
  int64_t global_every = 0;  // every n-th layer has no window and is global, the others local; 0: all are equal
  Positions positions = Positions::learned;
  double rope_theta = 10000.0;
  double local_rope_theta = 0.0;  // of local layers, whose rotary positions are then not scaled; 0: as global ones
  RopeScaling rope_scaling = RopeScaling::none;
  // Settings of scaled rotary positions (ops/attention/attention.h). The frequencies belong to llama3 and have the
  // values of Llama 3.1.
  double rope_factor = 8.0;
  double rope_low_frequency = 1.0, rope_high_frequency = 4.0;
  int64_t rope_original_sequence = 8192;  // tokens; of llama3 and yarn
  // Settings of yarn, with the values of its paper.
  double rope_beta_slow = 1.0, rope_beta_fast = 32.0;
  bool rope_truncate = true;
  double rope_attention_factor = 0.0;  // 0 in the file means yarn_attention_factor(rope_factor)
  Norm norm = Norm::layernorm;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::gelu;
  bool qk_norm = false;            // RMS norm of each head's queries and keys
  bool post_norms = false;         // norms of both branches of a block before they are added
  double query_scalar = 0.0;       // scores are divided by its square root; 0: head_dim
  bool scaled_embeddings = false;  // token embeddings are multiplied by sqrt(width)
  bool tied_head = true;
  bool bias = true;
  bool qkv_bias = false;           // of queries, keys and values alone, where bias is false
  double dropout = 0.0;            // on embeddings and residuals
  double attention_dropout = 0.0;  // above 0: an unfused path
  double init_std = 0.02;          // the deviation of output projections is divided by sqrt(2 * layers)
  ExpertsConfig experts = {};

  HfLayout hf_layout = HfLayout::automatic;  // that an export to transformers writes

  int64_t padded_vocabulary() const {
    return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
  }
  bool has_window() const { return window > 0 && window < sequence; }  // whether some token does not see all before it
  // The window of a layer, and whether it has the positions of local layers.
  int64_t window_of(int64_t layer) const { return sees_all(layer, global_every) ? 0 : window; }
  bool has_local_positions(int64_t layer) const {
    return global_every > 0 && local_rope_theta > 0 && !sees_all(layer, global_every);
  }
  bool has_qkv_bias() const { return bias || qkv_bias; }
  int64_t sparse_layers() const { return experts.number > 0 ? layers - experts.dense_layers : 0; }
  bool operator==(const ModelConfig&) const = default;
};

// The factor of rotated queries and keys in YaRN: 0.1 `scale` ln(factor) + 1 (Peng et al., arXiv 2309.00071,
// section 3.4, with scale 1; mscale in DeepSeek's models).
double yarn_attention_factor(double factor, double scale = 1.0);

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
  static constexpr std::array<std::string_view, 4> words = {"none", "linear", "llama3", "yarn"};
};
template <>
struct Names<models::gpt::Norm> {
  static constexpr std::array<std::string_view, 3> words = {"layernorm", "rmsnorm", "rmsnorm_1p"};
};
template <>
struct Names<models::gpt::HfLayout> {
  static constexpr std::array<std::string_view, 2> words = {"auto", "phi3"};
};
template <>
struct Names<models::gpt::Activation> {
  static constexpr std::array<std::string_view, 4> words = {"gelu", "swiglu", "gelu_erf", "geglu"};
};
template <>
struct Names<models::gpt::Router> {
  static constexpr std::array<std::string_view, 2> words = {"softmax", "sigmoid"};
};

}  // namespace terrace::config
