// The pre-norm blocks of a transformer (Xiong et al., arXiv 2002.04745), written for one device, which language and
// weather models share: x + dropout(attention(norm(x))), then x + dropout(feed_forward(norm(x))).
// layers/transformer_trace.h traces the same two units.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/models/model.h"
#include "terrace/models/transformer/experts.h"
#include "terrace/models/transformer/feed_forward.h"
#include "terrace/nn/layers.h"
#include "terrace/ops/attention/self_attention.h"
#include "terrace/ops/elements/activation.h"
#include "terrace/ops/elements/residual_stream.h"

namespace terrace::models {

struct BlockOptions {
  int64_t layers = 0, width = 0, ffn_width = 0;
  ops::HeadLayout heads;
  ops::Visibility visibility = ops::Visibility::causal;
  int64_t window = 0;        // as in ops::joint_attention()
  int64_t global_every = 0;  // every n-th layer has no window; 0: none
  nn::Norm::Kind norm = nn::Norm::Kind::layer;
  double norm_epsilon = 1e-5;
  bool post_norms = false;  // what attention and feed-forward give is normalised too, as in Gemma 2 (arXiv 2408.00118)
  bool normalises_heads = false;  // queries and keys have norms of their own, of the kind head_norm
  nn::Norm::Kind head_norm = nn::Norm::Kind::rms;
  ops::Activation activation = ops::Activation::gelu;
  bool bias = true, qkv_bias = true;
  nn::InitialValue initial, initial_of_outputs;  // the latter for the matrices that end a branch
  double dropout = 0.0;
  double attention_dropout = 0.0;  // of probabilities
  double inner_dropout = 0.0;      // of the activations between the two layers of a feed-forward
  // The rate at which each layer drops the branches of whole samples (stochastic depth, Huang et al., arXiv
  // 1603.09382); empty for models that have none.
  std::vector<double> drop_paths = {};
  ExpertOptions experts = {};

  FeedForwardOptions feed_forward() const {
    return {.width = width,
            .inner_width = ffn_width,
            .heads = heads.heads(),
            .activation = activation,
            .bias = bias,
            .initial = initial,
            .initial_of_outputs = initial_of_outputs,
            .inner_dropout = inner_dropout};
  }
};

// Pass::extension of a pass that continues sequences, whose keys and values the cache keeps. The batch is then one
// sequence, or one token of each of several ones, and has "positions" unless these begin at 0.
struct ContinuedSequences : PassExtension {
  explicit ContinuedSequences(ops::KeyValueCache& kept) : cache(kept) {}
  ops::KeyValueCache& cache;
};

class Attention : public nn::Module {
 public:
  Attention(const BlockOptions& options, int64_t layer, const nn::Build& build);
  at::Tensor forward(const at::Tensor& x, const ops::TokenPlaces& places, const Batch& batch, const Pass& pass) const;

 private:
  nn::Norm* add_head_norm(const char* name, const BlockOptions& options, const nn::Build& build);
  at::Tensor normalised(const at::Tensor& joint, const Pass& pass) const;

  ops::SelfAttention attention_;  // of all heads
  double dropout_, epsilon_;
  int64_t layer_;
  std::string name_;   // of the dropout of probabilities
  nn::Linear& joint_;  // queries, keys and values
  nn::Linear& output_;
  nn::Norm* const output_norm_;                   // null: none
  nn::Norm *const query_norm_, *const key_norm_;  // null: none
};

class Block : public nn::Module {
 public:
  Block(const BlockOptions& options, int64_t layer, const nn::Build& build);
  // The two units of a layer, each of which adds a branch to the stream.
  ops::ResidualStream attend(ops::ResidualStream x, const ops::TokenPlaces& places, const Batch& batch,
                             const Pass& pass) const;
  ops::ResidualStream feed_forward(ops::ResidualStream x, const Batch& batch, const Pass& pass) const;
  std::vector<nn::Parameter*> attention_parameters();
  std::vector<nn::Parameter*> ffn_parameters();
  std::vector<nn::Buffer*> ffn_buffers();
  Experts* experts() { return experts_; }  // null: the feed-forward is dense

 private:
  nn::Module& ffn() const;
  ops::Dropped dropped(const at::Tensor& branch, const char* name, const Batch& batch, const Pass& pass) const;
  at::Tensor kept(const at::Tensor& branch, const char* name, const Batch& batch, const Pass& pass) const;

  double dropout_, drop_path_;
  bool drops_paths_;
  std::string name_;
  nn::Norm& attention_norm_;
  Attention& attention_;
  nn::Norm& ffn_norm_;
  FeedForward* const dense_;  // one of both
  Experts* const experts_;
  nn::Norm* const ffn_output_norm_;  // null: none
};

// All blocks of a model, which are its modules 0, 1, ..
class Blocks : public nn::Module {
 public:
  Blocks(const BlockOptions& options, const nn::Build& build);
  const Block& operator[](int64_t layer) const { return *blocks_.at(static_cast<size_t>(layer)); }
  Block& operator[](int64_t layer) { return *blocks_.at(static_cast<size_t>(layer)); }
  const std::vector<Block*>& all() const { return blocks_; }

 private:
  std::vector<Block*> blocks_;
};

}  // namespace terrace::models
