// Attention, feed-forward and the blocks that they form.
#include "terrace/models/transformer/blocks.h"

#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/global_layers.h"
#include "terrace/models/dropout_site.h"
#include "terrace/ops/attention/head_norm.h"
#include "terrace/ops/recompute.h"

namespace terrace::models {
namespace {

std::vector<nn::Parameter*> joined_parameters(std::initializer_list<nn::Module*> modules) {
  std::vector<nn::Parameter*> list;
  for (nn::Module* module : modules) {
    if (module == nullptr) continue;
    const std::vector<nn::Parameter*> more = module->parameters();
    list.insert(list.end(), more.begin(), more.end());
  }
  return list;
}

// Null for passes that continue no sequences.
ops::KeyValueCache* cache_of(const Pass& pass) {
  if (pass.extension == nullptr) return nullptr;
  auto* continued = dynamic_cast<ContinuedSequences*>(pass.extension);
  TERRACE_CHECK(continued != nullptr, "the extension of a transformer's pass has no key-value cache");
  return &continued->cache;
}

// The branch of a layer after its norm, if it has one.
at::Tensor branch_of(const at::Tensor& output, const nn::Norm* norm, const Pass& pass) {
  if (norm == nullptr) return output;
  ops::ResidualStream stream{output};
  return norm->forward(stream, pass.deferred);
}

}  // namespace

Attention::Attention(const BlockOptions& options, int64_t layer, const nn::Build& build)
    : attention_{options.heads, options.visibility, sees_all(layer, options.global_every) ? 0 : options.window,
                 build.kernels.attention},
      dropout_(options.attention_dropout),
      epsilon_(options.norm_epsilon),
      layer_(layer),
      name_(fmt::format("blocks.{}.attention", layer)),
      joint_(add_module<nn::Linear>("qkv", options.width, options.heads.columns(), options.qkv_bias, options.initial,
                                    build)),
      output_(add_module<nn::Linear>("output", options.heads.heads() * options.heads.head_dim, options.width,
                                     options.bias, options.initial_of_outputs, build)),
      output_norm_(options.post_norms ? &add_module<nn::Norm>("output_norm", options.norm, options.width, options.bias,
                                                              options.norm_epsilon, build)
                                      : nullptr),
      query_norm_(add_head_norm("query_norm", options, build)),
      key_norm_(add_head_norm("key_norm", options, build)) {}

nn::Norm* Attention::add_head_norm(const char* name, const BlockOptions& options, const nn::Build& build) {
  if (!options.normalises_heads) return nullptr;
  const bool bias = options.head_norm == nn::Norm::Kind::layer;
  return &add_module<nn::Norm>(name, options.head_norm, options.heads.head_dim, bias, epsilon_, build);
}

at::Tensor Attention::normalised(const at::Tensor& joint, const Pass& pass) const {
  if (query_norm_ == nullptr) return joint;
  // The bias of the keys' norm adds the same to the scores of all keys, which changes no probability.
  return ops::normalize_heads(
      joint, attention_.layout.part(joint.size(-1)),
      {nn::weight_of(&query_norm_->weight), nn::weight_of(query_norm_->bias)}, {nn::weight_of(&key_norm_->weight)},
      {.centered = query_norm_->bias != nullptr, .epsilon = epsilon_, .weight_offset = query_norm_->weight_offset()},
      pass.deferred);
}

at::Tensor Attention::forward(const at::Tensor& x, const ops::TokenPlaces& places, const Batch& batch,
                              const Pass& pass) const {
  const at::Tensor joint = normalised(joint_.forward(x, pass.deferred), pass);  // [B, T, (H + 2G) hd]
  const ops::EarlierTokens earlier{cache_of(pass), layer_};
  const auto attend = [this, places, batch, pass, earlier](const at::Tensor& projection) {
    ops::SelfAttention attention = attention_;
    attention.layout = attention_.layout.part(projection.size(-1));
    ops::DropoutSite site = dropout_site_in_layer(dropout_, batch, pass);
    // In attention a rank has all positions and a part of the heads.
    if (site.rate > 0.0) site.first_head = attention_.layout.head_of(joint_.first_output());
    if (pass.context != nullptr) {
      return ops::context_attention(projection, attention, places, site, name_, *pass.context);
    }
    return ops::self_attention(projection, attention, places, site, name_, earlier);
  };
  const bool again = pass.training && pass.recompute_attention;
  const at::Tensor context = again ? ops::recompute(attend, joint) : attend(joint);  // [B, T, H hd]
  return branch_of(output_.forward(context, pass.deferred), output_norm_, pass);     // [B, T, D]
}

Block::Block(const BlockOptions& options, int64_t layer, const nn::Build& build)
    : dropout_(options.dropout),
      drop_path_(options.drop_paths.empty() ? 0.0 : options.drop_paths.at(static_cast<size_t>(layer))),
      drops_paths_(!options.drop_paths.empty()),
      name_(fmt::format("blocks.{}", layer)),
      attention_norm_(add_module<nn::Norm>("attention_norm", options.norm, options.width, options.bias,
                                           options.norm_epsilon, build)),
      attention_(add_module<Attention>("attention", options, layer, build)),
      ffn_norm_(
          add_module<nn::Norm>("ffn_norm", options.norm, options.width, options.bias, options.norm_epsilon, build)),
      dense_(options.experts.are_in(layer)
                 ? nullptr
                 : &add_module<FeedForward>("ffn", options.feed_forward(), fmt::format("{}.ffn", name_), build)),
      experts_(options.experts.are_in(layer) ? &add_module<Experts>("ffn", options.feed_forward(), options.experts,
                                                                    fmt::format("{}.ffn", name_), build)
                                             : nullptr),
      ffn_output_norm_(options.post_norms ? &add_module<nn::Norm>("ffn_output_norm", options.norm, options.width,
                                                                  options.bias, options.norm_epsilon, build)
                                          : nullptr) {}

nn::Module& Block::ffn() const {
  if (dense_ != nullptr) return *dense_;
  return *experts_;
}

// The branch before its dropout.
ops::Dropped Block::dropped(const at::Tensor& branch, const char* name, const Batch& batch, const Pass& pass) const {
  return {branch, dropout_site_of(branch, attention_norm_.weight.cut, dropout_, batch, pass),
          fmt::format("{}.{}", name_, name)};
}

// The branch after dropout and stochastic depth.
at::Tensor Block::kept(const at::Tensor& branch, const char* name, const Batch& batch, const Pass& pass) const {
  const ops::Dropped before = dropped(branch, name, batch, pass);
  at::Tensor kept = ops::dropout(branch, before.site, before.name);
  if (!pass.training || drop_path_ == 0.0) return kept;
  const ops::DropoutSite path = dropout_site(drop_path_, batch, pass);
  const at::Tensor ones = at::ones({branch.size(0), 1, 1}, branch.options().requires_grad(false));
  return kept.mul(ops::dropout(ones, path, before.name + ".path"));
}

ops::ResidualStream Block::attend(ops::ResidualStream x, const ops::TokenPlaces& places, const Batch& batch,
                                  const Pass& pass) const {
  const at::Tensor branch = attention_.forward(attention_norm_.forward(x, pass.deferred), places, batch, pass);
  return x + kept(branch, "attention.output", batch, pass);
}

ops::ResidualStream Block::feed_forward(ops::ResidualStream x, const Batch& batch, const Pass& pass) const {
  const at::Tensor y = ffn_norm_.forward(x, pass.deferred);
  const at::Tensor output =
      dense_ != nullptr ? dense_->forward(y, batch, pass) : experts_->forward(y, ffn_norm_.weight.cut, batch, pass);
  const at::Tensor branch = branch_of(output, ffn_output_norm_, pass);
  // A branch that is dropped by samples as well cannot be added in the kernel of dropout.
  if (drops_paths_) return x + kept(branch, "ffn", batch, pass);
  return x + dropped(branch, "ffn", batch, pass);
}

std::vector<nn::Parameter*> Block::attention_parameters() { return joined_parameters({&attention_norm_, &attention_}); }

std::vector<nn::Parameter*> Block::ffn_parameters() {
  return joined_parameters({&ffn_norm_, &ffn(), ffn_output_norm_});
}

std::vector<nn::Buffer*> Block::ffn_buffers() { return ffn().buffers(); }

Blocks::Blocks(const BlockOptions& options, const nn::Build& build) {
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    blocks_.push_back(&add_module<Block>(fmt::format("{}", layer), options, layer, build));
  }
}

}  // namespace terrace::models
