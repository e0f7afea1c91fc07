// Defines the keys of [model] that a GPT has.
#include "terrace/models/gpt/settings/keys.h"

#include "terrace/config/section_keys.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {
namespace {

using config::Choice;
using config::Flag;
using config::most_layers;
using config::most_width;
using config::OnResume;
using config::positive;
using config::Real;
using config::share;
using config::Whole;

// Upper limits, so that no product that counts parameters or tokens exceeds 63 bits.
constexpr int64_t most_ffn_width = 10'000'000;
constexpr int64_t most_heads = 10'000;
constexpr int64_t most_head_dim = 1'024;
constexpr int64_t most_tokens = 100'000'000;  // of one sequence
constexpr int64_t most_vocabulary = 1 << 30;  // token numbers are int32 in .bin files

// Keys of what tokens see of each other, and where.
template <typename Keys>
void add_position_keys(const Keys& model) {
  using M = ModelConfig;
  model.feature(
      "window", &M::window, Whole{0, most_tokens}, OnResume::fixed,
      "Sliding-window attention, as in Mistral: tokens that a token attends to, itself included. 0: all tokens "
      "before it.");
  model.feature(
      "global_every", &M::global_every, Whole{0, most_layers}, OnResume::fixed,
      "Every n-th layer is global: without the `window` and the `local_rope_theta` of the others, as in Gemma 3. "
      "0: all layers have the window.");
  model.optional("positions", &M::positions, Choice<Positions>{}, OnResume::fixed,
                 "Kind of position encoding; rotary needs an even head width.");
  model.optional("rope_theta", &M::rope_theta, positive, OnResume::fixed,
                 "Base of the wavelengths of rotary positions.");
  model.feature(
      "local_rope_theta", &M::local_rope_theta, Real{}, OnResume::fixed,
      "Base of the rotary positions of layers that are not global (`global_every`), which are then not scaled. "
      "0: positions as in the global ones.");
  model.feature("rope_scaling", &M::rope_scaling, Choice<RopeScaling>{}, OnResume::fixed,
                "How the wavelengths of rotary positions are stretched for sequences longer than those of an earlier "
                "training. linear: all of them by `rope_factor`; llama3: the long ones by `rope_factor`, as in Llama "
                "3.1; yarn: the long ones by `rope_factor`, with other limits and `rope_attention_factor`.");
  model.optional("rope_factor", &M::rope_factor, Real{.least = 1}, OnResume::fixed,
                 "Factor by which wavelengths are stretched.");
  model.optional("rope_low_frequency", &M::rope_low_frequency, positive, OnResume::fixed,
                 "With llama3, wavelengths of which fewer than this number fit `rope_original_sequence` are stretched "
                 "by the whole factor.");
  model.optional("rope_high_frequency", &M::rope_high_frequency, positive, OnResume::fixed,
                 "With llama3, wavelengths of which more than this number fit `rope_original_sequence` stay as they "
                 "are; above `rope_low_frequency`.");
  model.optional("rope_original_sequence", &M::rope_original_sequence, Whole{1, most_tokens}, OnResume::fixed,
                 "With llama3 and yarn, tokens of the sequences of the earlier training.");
  model.optional("rope_beta_slow", &M::rope_beta_slow, positive, OnResume::fixed,
                 "With yarn, pairs of channels that turn at most this number of times in `rope_original_sequence` "
                 "tokens are stretched by the whole factor.");
  model.optional("rope_beta_fast", &M::rope_beta_fast, positive, OnResume::fixed,
                 "With yarn, pairs of channels that turn at least this number of times in `rope_original_sequence` "
                 "tokens stay as they are; above `rope_beta_slow`.");
  model.optional("rope_truncate", &M::rope_truncate, Flag{}, OnResume::fixed,
                 "With yarn, both limits are moved outwards to whole pairs of channels.");
  model.optional("rope_attention_factor", &M::rope_attention_factor, Real{}, OnResume::fixed,
                 "With yarn, factor of rotated queries and keys. 0: 0.1 ln(`rope_factor`) + 1.");
}

}  // namespace

std::vector<config::Key> keys() {
  using M = ModelConfig;
  std::vector<config::Key> list;
  const config::SectionKeys model{
      "model", [](auto& config) -> decltype(auto) { return (config.model.template get<ModelConfig>()); }, list};
  model.required("layers", &M::layers, Whole{1, most_layers}, OnResume::fixed, "12", "Transformer blocks.");
  model.required("width", &M::width, Whole{1, most_width}, OnResume::fixed, "768", "Hidden size.");
  model.required("heads", &M::heads, Whole{1, most_heads}, OnResume::fixed, "12",
                 "Attention heads; divides `width` unless `head_dim` is given.");
  model.optional(
      "kv_heads", &M::kv_heads, Whole{0, most_heads}, OnResume::fixed,
      "Heads of keys and values; divides `heads`. Fewer than `heads`: grouped-query attention. 0: as many as `heads`.");
  model.optional("head_dim", &M::head_dim, Whole{0, most_head_dim}, OnResume::fixed,
                 "Width of one head. 0: `width` / `heads`.");
  model.optional(
      "ffn_width", &M::ffn_width, Whole{0, most_ffn_width}, OnResume::fixed,
      "Inner width of the feed-forward block; with SwiGLU and GeGLU, the width of each of its two input matrices. 0: "
      "4 * `width`.");
  model.required("sequence", &M::sequence, Whole{1, most_tokens}, OnResume::fixed, "1024", "Tokens of a sequence.");
  model.required("vocabulary", &M::vocabulary, Whole{1, most_vocabulary}, OnResume::fixed, "50257",
                 "Tokens that the tokenizer knows.");
  model.optional("vocabulary_multiple", &M::vocabulary_multiple, Whole{1, most_width}, OnResume::fixed,
                 "The rows of the embedding are padded from `vocabulary` to the next multiple of this number.");
  add_position_keys(model);
  model.optional("norm", &M::norm, Choice<Norm>{}, OnResume::fixed,
                 "Normalisation before each block and at the end. rmsnorm_1p: RMSNorm "
                 "that multiplies by 1 + weight, as in Gemma; its weights start at 0.");
  model.optional("norm_epsilon", &M::norm_epsilon, positive, OnResume::fixed, "Added to the variance in norms.");
  model.feature("qk_norm", &M::qk_norm, Flag{}, OnResume::fixed,
                "RMSNorm of the queries and keys of each head before the rotation, with weights that all heads share, "
                "as in Qwen 3. With rmsnorm_1p it multiplies by 1 + weight too.");
  model.feature(
      "post_norms", &M::post_norms, Flag{}, OnResume::fixed,
      "What attention and the feed-forward block give is normalised as well before it is added, as in Gemma 2.");
  model.feature("query_scalar", &M::query_scalar, Real{}, OnResume::fixed,
                "Scores are divided by the square root of this number. 0: `head_dim`.");
  model.feature("scaled_embeddings", &M::scaled_embeddings, Flag{}, OnResume::fixed,
                "Token embeddings are multiplied by the square root of `width`, as in Gemma.");
  model.optional(
      "activation", &M::activation, Choice<Activation>{}, OnResume::fixed,
      "Activation function of the feed-forward block: GELU by its approximation with tanh, as in GPT-2; SwiGLU, "
      "as in Llama; GELU by the error function; GeGLU, gated like SwiGLU by the approximated GELU, as in Gemma.");
  model.optional("tied_head", &M::tied_head, Flag{}, OnResume::fixed, "The output matrix is the token embedding.");
  model.optional("bias", &M::bias, Flag{}, OnResume::fixed, "Linear layers and LayerNorms have biases.");
  model.feature("qkv_bias", &M::qkv_bias, Flag{}, OnResume::fixed,
                "With `bias = false`, the linear layer of queries, keys and values has a bias all the same, as in Qwen "
                "2.");
  model.optional("dropout", &M::dropout, share, OnResume::may_change,
                 "Dropout rate of embeddings and residual branches.");
  model.optional("attention_dropout", &M::attention_dropout, share, OnResume::may_change,
                 "Dropout rate of attention weights; above 0, attention takes a slower path without the fused kernel.");
  model.optional("init_std", &M::init_std, Real{}, OnResume::fixed,
                 "Standard deviation of initial weights; that of output projections is divided by sqrt(2 * `layers`).");
  model.feature(
      "hf_layout", &M::hf_layout, Choice<HfLayout>{}, OnResume::may_change,
      "Layout of transformers in which `terrace export` writes the model, where it has several. auto: that of "
      "GPT-2, Llama, Mistral or Qwen; phi3: that of Phi 3, which joins matrices.");
  add_expert_keys(list);
  return list;
}

}  // namespace terrace::models::gpt
