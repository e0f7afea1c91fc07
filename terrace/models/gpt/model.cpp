// The GPT: embedding, blocks and head, for one device.
#include "terrace/models/gpt/model.h"

#include <ATen/ops/arange.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/models/dropout_site.h"
#include "terrace/models/gpt/cost/unit_table.h"
#include "terrace/models/gpt/key_value_cache.h"
#include "terrace/ops/activation.h"
#include "terrace/ops/cached_attention.h"
#include "terrace/ops/cut.h"
#include "terrace/ops/feed_forward.h"
#include "terrace/ops/head_norm.h"
#include "terrace/ops/linear.h"
#include "terrace/ops/recompute.h"
#include "terrace/ops/vocabulary_loss.h"

namespace terrace::models::gpt {
namespace {

nn::InitialValue initial(const ModelConfig& config) { return nn::InitialValue::normal(config.init_std); }

// The 2 * layers branches that end in these matrices add up in the residual stream (GPT-2, section 2.3).
nn::InitialValue residual_initial(const ModelConfig& config) {
  return nn::InitialValue::normal(config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

nn::Norm::Kind norm_kind(const ModelConfig& config) {
  return config.norm == Norm::layernorm ? nn::Norm::Kind::layer : nn::Norm::Kind::rms;
}

ops::Activation activation_of(const ModelConfig& config) {
  switch (config.activation) {
    case Activation::gelu:
      return ops::Activation::gelu;
    case Activation::gelu_erf:
      return ops::Activation::gelu_erf;
    case Activation::swiglu:
      break;
  }
  return ops::Activation::swiglu;
}

ops::RotaryScaling scaling_of(const ModelConfig& config) {
  using Kind = ops::RotaryScaling::Kind;
  if (config.rope_scaling == RopeScaling::none) return {};
  return {.kind = config.rope_scaling == RopeScaling::linear ? Kind::linear : Kind::llama3,
          .factor = config.rope_factor,
          .low_frequency = config.rope_low_frequency,
          .high_frequency = config.rope_high_frequency,
          .original_positions = config.rope_original_sequence};
}

ops::Documents documents_of(const Batch& batch) {
  ops::Documents documents{.numbers = batch["documents"], .starts = batch["document_starts"]};
  if (documents.starts.defined()) documents.longest = batch.sizes.at("longest_document");
  return documents;
}

std::vector<nn::Parameter*> parameters_of(nn::Module& first, nn::Module& second) {
  std::vector<nn::Parameter*> list = first.parameters();
  const std::vector<nn::Parameter*> more = second.parameters();
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

}  // namespace

EmbeddingUnit::EmbeddingUnit(const ModelConfig& config, const nn::Build& build)
    : tokens(add_module<nn::Embedding>("tokens", config.padded_vocabulary(), config.width, config.vocabulary,
                                       initial(config), build)),
      positions(config.positions == Positions::learned
                    ? &add_module<nn::Embedding>("positions", config.sequence, config.width, config.sequence,
                                                 initial(config), build)
                    : nullptr),
      dropout_(config.dropout) {}

at::Tensor EmbeddingUnit::forward(const Batch& batch, const at::Tensor& given, const Pass& pass) const {
  const at::Tensor& ids = batch["tokens"];
  at::Tensor x = tokens.forward(ids, "token", pass.deferred);  // [B, T, D]
  if (positions) {
    const auto count = [&] { return at::arange(ids.size(1), ids.options()); };
    const at::Tensor index = given.defined() ? given : count().expand(ids.sizes());
    x = x.add(positions->forward(index, "position", pass.deferred));  // [B, T, D]
  }
  return ops::dropout_add({}, x, dropout_site_of(x, tokens.weight.cut, dropout_, batch, pass), "embedding");
}

Attention::Attention(const ModelConfig& config, int64_t layer, const nn::Build& build)
    : layout_{config.kv_heads, config.heads / config.kv_heads, config.head_dim},
      window_(config.window),
      dropout_(config.attention_dropout),
      layer_(layer),
      kernels_(build.kernels.attention),
      joint_(add_module<nn::Linear>("qkv", config.width, layout_.columns(), config.has_qkv_bias(), initial(config),
                                    build)),
      output_(add_module<nn::Linear>("output", layout_.heads() * layout_.head_dim, config.width, config.bias,
                                     residual_initial(config), build)),
      epsilon_(config.norm_epsilon),
      query_norm_(add_head_norm("query_norm", config, build)),
      key_norm_(add_head_norm("key_norm", config, build)) {}

nn::Norm* Attention::add_head_norm(const char* name, const ModelConfig& config, const nn::Build& build) {
  if (!config.qk_norm) return nullptr;
  return &add_module<nn::Norm>(name, nn::Norm::Kind::rms, config.head_dim, false, config.norm_epsilon, build);
}

at::Tensor Attention::forward(const at::Tensor& x, const ops::RotaryTable* table, const at::Tensor& positions,
                              const Batch& batch, const Pass& pass) const {
  KeyValueCache* const cache = cache_of(pass);
  const auto core = [this, table, positions, batch, pass, cache](const at::Tensor& joint) {
    const ops::Documents documents = documents_of(batch);
    const ops::HeadLayout layout = layout_.part(joint.size(-1));
    auto dropout = dropout_site(dropout_, batch, pass);
    if (!cache && dropout.rate == 0.0) {
      return ops::joint_attention(joint, layout, table, positions, documents, kernels_, ops::Visibility::causal,
                                  window_);
    }
    // In attention a rank has all positions and a part of the heads.
    if (dropout.rate > 0) dropout.first_head = layout_.head_of(joint_.weight.mark.row_ranges.front().begin);
    ops::Heads heads = ops::split_heads(joint, layout, table, positions);  // [B, H, T, hd], [B, G, T, hd] twice
    at::Tensor mask = documents.numbers.defined()
                          ? ops::document_mask(documents.numbers, ops::Visibility::causal, window_)
                          : at::Tensor();
    if (cache) {
      TERRACE_CHECK(!mask.defined(), "a key-value cache holds one document a sequence");
      const int64_t length = joint.size(1);
      if (length == 1) {
        ops::CachedKeys kept = cache->selected(layer_);
        kept.window = window_;
        return ops::cached_attention(heads, kept);
      }
      std::tie(heads.keys, heads.values) = cache->append(layer_, heads.keys, heads.values);
      // A prompt that begins its sequence sees itself alone, as in training.
      if (heads.keys.size(2) == length) {
        return ops::joint_attention(joint, layout, table, positions, {}, kernels_, ops::Visibility::causal, window_);
      }
    }
    const int64_t length = joint.size(1), total = heads.keys.size(2);
    if (!mask.defined() && (total != length || (window_ > 0 && total > window_))) {
      mask = ops::causal_mask(length, total, joint.device(), window_);
    }
    return ops::attention(heads, mask, dropout, fmt::format("blocks.{}.attention", layer_));
  };
  at::Tensor joint = joint_.forward(x, pass.deferred);  // [B, T, (H + 2G) hd]
  if (query_norm_) {
    joint = ops::normalize_heads(joint, layout_.part(joint.size(-1)), {nn::weight_of(&query_norm_->weight)},
                                 {nn::weight_of(&key_norm_->weight)}, {.centered = false, .epsilon = epsilon_},
                                 pass.deferred);
  }
  const bool again = pass.training && pass.recompute_attention;
  const at::Tensor context = again ? ops::recompute(core, joint) : core(joint);  // [B, T, H hd]
  return output_.forward(context, pass.deferred);                                // [B, T, D]
}

FeedForward::FeedForward(const ModelConfig& config, const nn::Build& build)
    : activation_(activation_of(config)),
      first_(add_module<nn::Linear>("first", config.width,
                                    (activation_ == ops::Activation::swiglu ? 2 : 1) * config.ffn_width, config.bias,
                                    initial(config), build)),
      second_(add_module<nn::Linear>("second", config.ffn_width, config.width, config.bias, residual_initial(config),
                                     build)) {}

at::Tensor FeedForward::forward(const at::Tensor& x, const Pass& pass) const {
  return ops::feed_forward(x,
                           {nn::weight_of(&first_.weight), nn::weight_of(first_.bias), nn::weight_of(&second_.weight),
                            nn::weight_of(second_.bias)},
                           activation_, pass.deferred);
}

Block::Block(const ModelConfig& config, int64_t layer, const nn::Build& build)
    : dropout_(config.dropout),
      layer_(layer),
      attention_norm_(add_module<nn::Norm>("attention_norm", norm_kind(config), config.width, config.bias,
                                           config.norm_epsilon, build)),
      attention_(add_module<Attention>("attention", config, layer, build)),
      ffn_norm_(
          add_module<nn::Norm>("ffn_norm", norm_kind(config), config.width, config.bias, config.norm_epsilon, build)),
      ffn_(add_module<FeedForward>("ffn", config, build)) {}

ops::ResidualStream Block::attend(ops::ResidualStream x, const ops::RotaryTable* table, const at::Tensor& positions,
                                  const Batch& batch, const Pass& pass) const {
  const auto dropout = [&](const at::Tensor& branch) {
    return ops::dropout(branch, dropout_site_of(branch, attention_norm_.weight.cut, dropout_, batch, pass),
                        fmt::format("blocks.{}.attention.output", layer_));
  };
  return x + dropout(attention_.forward(attention_norm_.forward(x, pass.deferred), table, positions, batch, pass));
}

ops::ResidualStream Block::feed_forward(ops::ResidualStream x, const Batch& batch, const Pass& pass) const {
  const auto dropout = [&](const at::Tensor& branch) {
    return ops::Dropped{branch, dropout_site_of(branch, ffn_norm_.weight.cut, dropout_, batch, pass),
                        fmt::format("blocks.{}.ffn", layer_)};
  };
  return x + dropout(ffn_.forward(ffn_norm_.forward(x, pass.deferred), pass));
}

std::vector<nn::Parameter*> Block::attention_parameters() { return parameters_of(attention_norm_, attention_); }

std::vector<nn::Parameter*> Block::ffn_parameters() { return parameters_of(ffn_norm_, ffn_); }

HeadUnit::HeadUnit(const ModelConfig& config, const nn::Build& build)
    : norm(add_module<nn::Norm>("norm", norm_kind(config), config.width, config.bias, config.norm_epsilon, build)),
      output(config.tied_head ? nullptr
                              : &add_module<nn::Linear>("output", config.width, config.padded_vocabulary(), false,
                                                        initial(config), build)) {}

Gpt::Gpt(const ModelConfig& config, const nn::Build& build)
    : config_(config),
      build_(build),
      table_(
          config.positions == Positions::rotary && !build.device.is_meta()
              ? ops::rotary_table(config.sequence, config.head_dim, config.rope_theta, build.device, scaling_of(config))
              : ops::RotaryTable{}),
      embedding_(add_module<EmbeddingUnit>("embedding", config, build)),
      blocks_(add_blocks()),
      head_(add_module<HeadUnit>("head", config, build)) {}

std::vector<Block*> Gpt::add_blocks() {
  std::vector<Block*> blocks;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    blocks.push_back(&add_module<Block>(fmt::format("blocks.{}", layer), config_, layer, build_));
  }
  return blocks;
}

std::vector<nn::Parameter*> Gpt::unit_parameters(int64_t unit) {
  if (unit == 0) return embedding_.parameters();
  if (unit + 1 == num_units()) return head_.parameters();
  Block& block = *blocks_.at(static_cast<size_t>(layer_of(unit)));
  return is_attention(unit) ? block.attention_parameters() : block.ffn_parameters();
}

Tensors Gpt::forward(int64_t begin, int64_t end, const Tensors& input, const Batch& batch, const Pass& pass) {
  TERRACE_CHECK(begin >= 0 && end < num_units(), "units {} to {} of {} have no forward", begin, end - 1, num_units());
  const at::Tensor& positions = batch["positions"];
  const ops::RotaryTable* table = table_.cosines.defined() ? &table_ : nullptr;
  ops::ResidualStream x{input.empty() ? at::Tensor() : input.front()};  // [B, T, D]
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == 0) {
      x = {embedding_.forward(batch, positions, pass)};
      continue;
    }
    const Block& block = *blocks_[static_cast<size_t>(layer_of(unit))];
    x = is_attention(unit) ? block.attend(std::move(x), table, positions, batch, pass)
                           : block.feed_forward(std::move(x), batch, pass);
  }
  return {x.sum()};
}

std::vector<TensorShape> Gpt::output_shapes(int64_t, const Batch& batch) const {
  // Only the first stage of a pipeline has the tokens; in training their length is config_.sequence.
  const at::Tensor tokens = batch["tokens"];
  const int64_t length = tokens.defined() ? tokens.size(1) : config_.sequence;
  return {{.sizes = {batch.samples.size(0), length, config_.width}, .type = build_.type, .sequence_dim = 1}};
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
  const Tensors hidden = begin + 1 == num_units() ? input : forward(begin, num_units() - 1, input, batch, pass);
  const ops::Weight weight = nn::weight_of(&output_weight());
  const at::Tensor own = ops::linear(head_.norm.forward(hidden.front()), weight, {});
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
