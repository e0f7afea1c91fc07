// The GPT: embedding, blocks and head, for one device.
#include "terrace/models/gpt/model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/models/dropout_site.h"
#include "terrace/models/gpt/cost/unit_table.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/elements/activation.h"
#include "terrace/ops/loss/vocabulary_loss.h"
#include "terrace/ops/products/linear.h"

namespace terrace::models::gpt {
namespace {

nn::InitialValue initial(const ModelConfig& config) { return nn::InitialValue::normal(config.init_std); }

// The 2 * layers branches that end in these matrices add up in the residual stream (GPT-2, section 2.3).
nn::InitialValue residual_initial(const ModelConfig& config) {
  return nn::InitialValue::normal(config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

nn::Norm::Kind norm_kind(const ModelConfig& config) {
  if (config.norm == Norm::rmsnorm_1p) return nn::Norm::Kind::rms_1p;
  return config.norm == Norm::layernorm ? nn::Norm::Kind::layer : nn::Norm::Kind::rms;
}

ops::Activation activation_of(const ModelConfig& config) {
  switch (config.activation) {
    case Activation::gelu:
      return ops::Activation::gelu;
    case Activation::gelu_erf:
      return ops::Activation::gelu_erf;
    case Activation::geglu:
      return ops::Activation::geglu;
    case Activation::swiglu:
      break;
  }
  return ops::Activation::swiglu;
}

ops::RotaryScaling scaling_of(const ModelConfig& config) {
  using Kind = ops::RotaryScaling::Kind;
  switch (config.rope_scaling) {
    case RopeScaling::linear:
      return {.kind = Kind::linear, .factor = config.rope_factor};
    case RopeScaling::llama3:
      return {.kind = Kind::llama3,
              .factor = config.rope_factor,
              .low_frequency = config.rope_low_frequency,
              .high_frequency = config.rope_high_frequency,
              .original_positions = config.rope_original_sequence};
    case RopeScaling::yarn:
      return {.kind = Kind::yarn,
              .factor = config.rope_factor,
              .low_frequency = config.rope_beta_slow,
              .high_frequency = config.rope_beta_fast,
              .original_positions = config.rope_original_sequence,
              .whole_pairs = config.rope_truncate,
              .attention_factor = config.rope_attention_factor};
    case RopeScaling::none:
      break;
  }
  return {};
}

// The table of the layers with this base. Queries and keys are divided by head_dim^(1/4) each by way of the scores, so
// that another divisor of the scores is a factor of both.
ops::RotaryTable rotary_table_of(const ModelConfig& config, double theta, ops::RotaryScaling scaling,
                                 const nn::Build& build) {
  if (config.positions != Positions::rotary || build.device.is_meta()) return {};
  if (config.query_scalar > 0) {
    scaling.attention_factor *= std::pow(static_cast<double>(config.head_dim) / config.query_scalar, 0.25);
  }
  return ops::rotary_table(config.sequence, config.head_dim, theta, build.device, scaling);
}

ops::Documents documents_of(const Batch& batch) {
  ops::Documents documents{.numbers = batch["documents"], .starts = batch["document_starts"]};
  if (documents.starts.defined()) documents.longest = batch.sizes.at("longest_document");
  return documents;
}

// The position of each token [B, T]; `given` are those of whole sequences, where the batch has some.
at::Tensor positions_of(const at::Tensor& tokens, const at::Tensor& given, const Pass& pass) {
  if (given.defined()) return pass.context == nullptr ? given : ops::own_rows(given, *pass.context);
  if (pass.context == nullptr) return at::arange(tokens.size(1), tokens.options()).expand(tokens.sizes());
  const at::Tensor all = at::arange(pass.context->places.length, tokens.options()).unsqueeze(0);
  return ops::own_rows(all, *pass.context).expand(tokens.sizes());
}

ExpertOptions expert_options(const ExpertsConfig& config) {
  const bool sigmoid = config.router == Router::sigmoid;
  return {.number = config.number,
          .width = config.width,
          .shared = config.shared,
          .shared_gate = config.shared_gate,
          .dense_layers = config.dense_layers,
          .router = {.experts_per_token = config.per_token,
                     .scores = sigmoid ? ops::RouterScores::sigmoid : ops::RouterScores::softmax,
                     .normalised = config.normalise,
                     .factor = config.factor,
                     .groups = config.groups,
                     .groups_kept = config.groups_kept,
                     .best_in_group = std::min<int64_t>(2, config.number / config.groups)},
          .bias = config.bias,
          .bias_rate = config.bias_rate,
          .balance_loss = config.balance_loss,
          .z_loss = config.z_loss};
}

BlockOptions block_options(const ModelConfig& config) {
  return {.layers = config.layers,
          .width = config.width,
          .ffn_width = config.ffn_width,
          .heads = {config.kv_heads, config.heads / config.kv_heads, config.head_dim},
          .window = config.window,
          .global_every = config.global_every,
          .norm = norm_kind(config),
          .norm_epsilon = config.norm_epsilon,
          .post_norms = config.post_norms,
          .normalises_heads = config.qk_norm,
          .head_norm = config.norm == Norm::rmsnorm_1p ? nn::Norm::Kind::rms_1p : nn::Norm::Kind::rms,
          .activation = activation_of(config),
          .bias = config.bias,
          .qkv_bias = config.has_qkv_bias(),
          .initial = initial(config),
          .initial_of_outputs = residual_initial(config),
          .dropout = config.dropout,
          .attention_dropout = config.attention_dropout,
          .experts = expert_options(config.experts)};
}

}  // namespace

EmbeddingUnit::EmbeddingUnit(const ModelConfig& config, const nn::Build& build)
    : tokens(add_module<nn::Embedding>("tokens", config.padded_vocabulary(), config.width, config.vocabulary,
                                       initial(config), build)),
      positions(config.positions == Positions::learned
                    ? &add_module<nn::Embedding>("positions", config.sequence, config.width, config.sequence,
                                                 initial(config), build)
                    : nullptr),
      dropout_(config.dropout),
      scale_(config.scaled_embeddings ? std::sqrt(static_cast<double>(config.width)) : 1.0) {}

at::Tensor EmbeddingUnit::forward(const Batch& batch, const Pass& pass) const {
  const at::Tensor &ids = batch["tokens"], &given = batch["positions"];
  at::Tensor x = tokens.forward(ids, "token", pass.deferred);  // [B, T, D]
  if (scale_ != 1.0) {
    // The scale is rounded to the type of the embeddings, as in transformers.
    x = x.mul(at::scalar_tensor(scale_, at::TensorOptions().dtype(x.scalar_type())).item<double>());
  }
  if (positions) {
    const at::Tensor index = positions_of(ids, given, pass);
    x = x.add(positions->forward(index, "position", pass.deferred));  // [B, T, D]
  }
  return ops::dropout_add({}, x, dropout_site_of(x, tokens.weight.cut, dropout_, batch, pass), "embedding");
}

HeadUnit::HeadUnit(const ModelConfig& config, const nn::Build& build)
    : norm(add_module<nn::Norm>("norm", norm_kind(config), config.width, config.bias, config.norm_epsilon, build)),
      output(config.tied_head ? nullptr
                              : &add_module<nn::Linear>("output", config.width, config.padded_vocabulary(), false,
                                                        initial(config), build)) {}

Gpt::Gpt(const ModelConfig& config, const nn::Build& build)
    : Transformer(config.layers, build),
      config_(config),
      table_(rotary_table_of(config, config.rope_theta, scaling_of(config), build)),
      local_table_(config.has_local_positions(0) ? rotary_table_of(config, config.local_rope_theta, {}, build)
                                                 : ops::RotaryTable{}),
      embedding_(add_module<EmbeddingUnit>("embedding", config, build)),
      blocks_(add_module<Blocks>("blocks", block_options(config), build)),
      head_(add_module<HeadUnit>("head", config, build)) {}

ops::TokenPlaces Gpt::places(const Batch& batch) const {
  return {.positions = batch["positions"], .documents = documents_of(batch)};
}

const ops::RotaryTable* Gpt::rotary_table(int64_t layer) const {
  const ops::RotaryTable& table = config_.has_local_positions(layer) ? local_table_ : table_;
  return table.cosines.defined() ? &table : nullptr;
}

std::vector<TensorShape> Gpt::output_shapes(int64_t, const Batch& batch) const {
  // Only the first stage of a pipeline has the tokens; in training their length is config_.sequence.
  const at::Tensor tokens = batch["tokens"];
  const int64_t length = tokens.defined() ? tokens.size(1) : config_.sequence / build().context_ranks;
  return {{.sizes = {batch.samples.size(0), length, config_.width}, .type = build().type, .sequence_dim = 1}};
}

const nn::Parameter& Gpt::output_weight() const {
  return head_.output ? head_.output->weight : embedding_.tokens.weight;
}

Tensors Gpt::loss(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  TERRACE_CHECK(begin + 1 == num_units(), "the loss is that of the head alone, not of the units from {} on", begin);
  const ops::VocabularyLossOptions options{.vocabulary = config_.vocabulary,
                                           .gradient_scale = pass.gradient_scales.front(),
                                           .chunk_bytes = loss_chunk_bytes(input.front().is_cuda())};
  const at::Tensor normed = head_.norm.forward(input.front());
  return {ops::vocabulary_loss(normed, nn::weight_of(&output_weight()), batch["targets"], options)};
}

Outputs Gpt::outputs(int64_t begin, const Tensors& input, const Batch& batch, const Pass& pass) {
  const at::Tensor hidden = last_hidden(begin, input, batch, pass);
  const ops::Weight weight = nn::weight_of(&output_weight());
  const at::Tensor own = ops::linear(head_.norm.forward(hidden), weight, {});
  const at::Tensor all = ops::whole_columns(weight.cut, own, "logits");            // [B, T, padded vocabulary]
  const at::Tensor logits = all.narrow(-1, 0, config_.vocabulary).to(at::kFloat);  // [B, T, vocabulary]
  return {{"logits", logits.detach()}};
}

std::unique_ptr<Gpt> build_model(const ModelConfig& config, const nn::Build& build) {
  auto model = std::make_unique<Gpt>(config, build);
  mark_parameters(*model, unit_table(config, {}), build.type);
  return model;
}

}  // namespace terrace::models::gpt
