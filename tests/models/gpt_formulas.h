// Parameters, floating-point operations and bytes of a GPT in closed form, against which the tests hold what the trace
// of its units gives.
#pragma once

#include <algorithm>
#include <cstdint>

#include "terrace/base/operation_limits.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gpt {

// The number of trained parameters, including the padding of the vocabulary; a tied head counts once.
inline int64_t parameter_count(const ModelConfig& config);

// Whether the products of queries with keys and of probabilities with values are counted for every pair of tokens, or
// only for the half of the pairs that a causal model uses. The papers' formulas, and `mfu` in our metrics, count every
// pair. With a window W of a sequence s, W (s - W/2) pairs are that half, and twice as many count as all.
enum class AttentionCount { full, causal_half };

// Floating-point operations of the matrix products of one forward pass over one sequence, in all blocks together or in
// the output layer. Two for each multiply-add.
inline double block_forward_flops(const ModelConfig& config, AttentionCount attention);
inline double attention_forward_flops(const ModelConfig& config, AttentionCount attention);  // included above
inline double ffn_forward_flops(const ModelConfig& config);  // included in block_forward_flops
inline double head_forward_flops(const ModelConfig& config);

// Operations of a training step, whose backward costs twice its forward. For multi-head attention and an ffn_width of 4
// h this is F = 72 B s l h^2 (1 + s/(6h)) + 6 B s h V (arXiv 2312.12705), with V padded.
inline double model_flops(const ModelConfig& config, int64_t sequences, AttentionCount attention);

// The operations that are executed: model_flops and those that recompute repeats, every block once (full) or the
// attention core once (selective). The fused kernel's own recompute in backward is not counted.
inline double hardware_flops(const ModelConfig& config, int64_t sequences, AttentionCount attention,
                             config::Recompute recompute);

using schedule::UnitTableOptions;

// Bytes of the hidden states [B, T, D], which pass between units and between pipeline stages.
inline int64_t hidden_bytes(const ModelConfig& config, const UnitTableOptions& options);
// Bytes that attention and the feed-forward network, each with the norm before it, keep from forward to backward with
// our attention kernels: they include the input but not the output. With recompute = "full" only the input is kept. See
// "Activations" in docs/sharding.md.
inline int64_t attention_kept_bytes(const ModelConfig& config, const UnitTableOptions& options,
                                    config::Recompute recompute);

// The mask of attention of one layer on a GPU, which has a row of keys for each query: for documents and for a window,
// where the type or the heads are not those of ops::flash_attention() or probabilities are dropped. 0 where there is
// none, and on CPUs, whose kernels need none. Masks that AMD's GPUs need besides are not counted.
struct MaskBytes {
  int64_t kept = 0;       // in the type of the scores; with recompute only while attention is computed again
  int64_t temporary = 0;  // while it is made
};
inline MaskBytes mask_bytes(const ModelConfig& config, const UnitTableOptions& options, bool documents);
inline int64_t ffn_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute);
// Bytes that the embedding keeps, which are of indices.
inline int64_t embedding_kept_bytes(const ModelConfig& config, const UnitTableOptions& options);

// Bytes of the largest tensors that exist only while a unit or its gradients are computed: gradients between the
// products of a half of a block and of its input and output; a chunk of logits and the gradient of the head's input.
inline int64_t attention_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t ffn_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t head_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);

// The tokens whose logits exist at a time, as in ops/vocabulary_loss, on a rank with so many rows of the vocabulary.
inline int64_t chunk_tokens(int64_t tokens, int64_t vocabulary, const UnitTableOptions& options);

// Bytes that each unit keeps from a backward that defers its weight gradients until they are computed; recompute does
// not change them. See "Weight inputs" in docs/sharding.md.
inline int64_t attention_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t ffn_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
inline int64_t embedding_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);

// Elements of matrices; each element costs one multiply-add for each token.
inline int64_t ffn_matrix_weights(const ModelConfig& config) {
  return (is_gated(config.activation) ? 3 : 2) * config.width * config.ffn_width;
}

inline int64_t block_matrix_weights(const ModelConfig& config) {
  const int64_t joint = (config.heads + 2 * config.kv_heads) * config.head_dim * config.width;
  const int64_t output = config.heads * config.head_dim * config.width;
  return joint + output + ffn_matrix_weights(config);
}

inline int64_t block_biases(const ModelConfig& config) {
  const int64_t first = is_gated(config.activation) ? 2 : 1;
  const int64_t joint = (config.heads + 2 * config.kv_heads) * config.head_dim;
  return (config.has_qkv_bias() ? joint : 0) + (config.bias ? first * config.ffn_width + 2 * config.width : 0);
}

inline int64_t norm_weights(const ModelConfig& config) {
  return config.norm == Norm::layernorm && config.bias ? 2 * config.width : config.width;
}

// Norms of a block beside those before its branches.
inline int64_t post_norm_weights(const ModelConfig& config) { return config.post_norms ? 2 * norm_weights(config) : 0; }

// The weights of the norms of queries and of keys, which all heads share.
inline int64_t head_norm_weights(const ModelConfig& config) { return config.qk_norm ? 2 * config.head_dim : 0; }

// Tokens of a rank between the cut layers, where with sequence parallelism each rank has a part of them.
inline int64_t own_tokens(const ModelConfig& config, const UnitTableOptions& options) {
  return options.samples * config.sequence / (options.sequence_parallel ? options.tensor_ranks : 1);
}

// A norm keeps its input, its output and its statistics.
inline int64_t norm_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t statistics = (config.norm == Norm::layernorm ? 2 : 1) * own_tokens(config, options) * 4;
  return 2 * hidden_bytes(config, options) + statistics;
}

// The norm of a branch keeps its input and its statistics; nothing keeps its output.
inline int64_t post_norm_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return config.post_norms ? norm_bytes(config, options) - hidden_bytes(config, options) : 0;
}

inline int64_t heads_of(const ModelConfig& config, const UnitTableOptions& options) {
  return config.heads / options.tensor_ranks;
}

// Elements of a token on a rank in queries, keys, values and context.
inline int64_t attention_columns(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t groups = std::max<int64_t>(1, config.kv_heads / options.tensor_ranks);
  return (2 * heads_of(config, options) + 2 * groups) * config.head_dim;
}

// Bytes that the norm of queries and keys keeps: its input and its statistics.
inline int64_t head_norm_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  if (!config.qk_norm) return 0;
  const int64_t heads = heads_of(config, options) + std::max<int64_t>(1, config.kv_heads / options.tensor_ranks);
  return options.samples * config.sequence * heads * (config.head_dim * options.element_bytes + 4);
}

// Elements of a token on a rank before and after the activation function; SwiGLU takes pairs.
inline int64_t ffn_columns(const ModelConfig& config, const UnitTableOptions& options) {
  return (is_gated(config.activation) ? 3 : 2) * (config.ffn_width / options.tensor_ranks);
}

// Bytes that a half of a block keeps for its weight gradients; `columns` counts the elements between its two products.
inline int64_t half_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options, int64_t columns) {
  const int64_t tokens = options.samples * config.sequence;
  // The input of the first product and the gradient of the second product's output. With sequence parallelism the bias
  // needs this gradient once more, of the rank's own positions.
  const int64_t outer = 2 * tokens * config.width * options.element_bytes;
  const int64_t own = options.sequence_parallel && options.tensor_ranks > 1 ? hidden_bytes(config, options) : 0;
  return outer + own + tokens * columns * options.element_bytes +
         (norm_weights(config) + post_norm_weights(config) / 2) * 4;
}

// The weights that a sparse layer has in place of the two matrices and biases of a dense one.
inline int64_t sparse_weights(const ModelConfig& config) {
  const ExpertsConfig& experts = config.experts;
  const int64_t one = (is_gated(config.activation) ? 3 : 2) * config.width * experts.width;
  return (experts.number + experts.shared) * one + (experts.number + (experts.shared_gate ? 1 : 0)) * config.width;
}

inline int64_t parameter_count(const ModelConfig& config) {
  const int64_t table = config.padded_vocabulary() * config.width;
  const int64_t positions = config.positions == Positions::learned ? config.sequence * config.width : 0;
  const int64_t block = block_matrix_weights(config) + block_biases(config) + 2 * norm_weights(config) +
                        head_norm_weights(config) + post_norm_weights(config);
  const int64_t ffn_biases = config.bias ? (is_gated(config.activation) ? 2 : 1) * config.ffn_width + config.width : 0;
  const int64_t more_if_sparse = sparse_weights(config) - ffn_matrix_weights(config) - ffn_biases;
  return (config.tied_head ? 1 : 2) * table + positions + config.layers * block + norm_weights(config) +
         config.sparse_layers() * more_if_sparse;
}

inline double attention_forward_flops(const ModelConfig& config, AttentionCount attention) {
  const double all = static_cast<double>(config.sequence) * static_cast<double>(config.sequence) *
                     (attention == AttentionCount::full ? 1.0 : 0.5);
  double pairs = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const schedule::Operation shape{.n = config.sequence, .window = config.window_of(layer)};
    pairs += shape.window > 0 ? 2 * shape.share_in_window() * all : all;
  }
  return 4.0 * static_cast<double>(config.heads * config.head_dim) * pairs;
}

inline double block_forward_flops(const ModelConfig& config, AttentionCount attention) {
  const double weights = static_cast<double>(config.layers) * static_cast<double>(block_matrix_weights(config));
  return 2.0 * static_cast<double>(config.sequence) * weights + attention_forward_flops(config, attention);
}

inline double ffn_forward_flops(const ModelConfig& config) {
  return 2.0 * static_cast<double>(config.sequence * config.layers) * static_cast<double>(ffn_matrix_weights(config));
}

inline double head_forward_flops(const ModelConfig& config) {
  return 2.0 * static_cast<double>(config.sequence) * static_cast<double>(config.width) *
         static_cast<double>(config.padded_vocabulary());
}

inline double model_flops(const ModelConfig& config, int64_t sequences, AttentionCount attention) {
  return 3.0 * static_cast<double>(sequences) * (block_forward_flops(config, attention) + head_forward_flops(config));
}

inline double hardware_flops(const ModelConfig& config, int64_t sequences, AttentionCount attention,
                             config::Recompute recompute) {
  double repeated = 0.0;
  if (recompute == config::Recompute::full) repeated = block_forward_flops(config, attention);
  if (recompute == config::Recompute::selective) repeated = attention_forward_flops(config, attention);
  return model_flops(config, sequences, attention) + static_cast<double>(sequences) * repeated;
}

inline int64_t hidden_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return own_tokens(config, options) * config.width * options.element_bytes;
}

inline int64_t attention_kept_bytes(const ModelConfig& config, const UnitTableOptions& options,
                                    config::Recompute recompute) {
  if (recompute == config::Recompute::full) return hidden_bytes(config, options);
  const int64_t tokens = options.samples * config.sequence;
  const int64_t log_sums = recompute == config::Recompute::none ? tokens * heads_of(config, options) * 4 : 0;
  return norm_bytes(config, options) + post_norm_bytes(config, options) + head_norm_bytes(config, options) +
         tokens * attention_columns(config, options) * options.element_bytes + log_sums;
}

inline MaskBytes mask_bytes(const ModelConfig& config, const UnitTableOptions& options, bool documents) {
  const bool windows = config.window > 0 && config.window < config.sequence;
  const bool flash =
      options.element_bytes == 2 && flash_takes_heads(config.head_dim) && config.attention_dropout == 0.0;
  if (!options.on_gpu || flash || (!documents && !windows)) return {};
  const int64_t pairs = (documents ? options.samples : 1) * config.sequence * config.sequence;
  // One byte a pair for each of: equal documents, those before the query, those in the window.
  return {.kept = pairs * options.element_bytes, .temporary = pairs * (windows ? 3 : 2)};
}

inline int64_t ffn_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute) {
  if (recompute == config::Recompute::full) return hidden_bytes(config, options);
  const int64_t tokens = options.samples * config.sequence;
  return norm_bytes(config, options) + post_norm_bytes(config, options) +
         tokens * ffn_columns(config, options) * options.element_bytes;
}

inline int64_t embedding_kept_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t positions = config.positions == Positions::learned ? config.sequence * 8 : 0;
  // A table that is cut by rows keeps indices within the rank's rows, and a mask of the tokens that other ranks hold.
  const int64_t tokens = options.tensor_ranks > 1 ? options.samples * config.sequence * (8 + 1) : 0;
  return positions + tokens;
}

inline int64_t attention_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t tokens = options.samples * config.sequence;
  return 2 * hidden_bytes(config, options) + tokens * attention_columns(config, options) * options.element_bytes +
         head_norm_bytes(config, options);
}

inline int64_t ffn_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t tokens = options.samples * config.sequence;
  return 2 * hidden_bytes(config, options) + tokens * ffn_columns(config, options) * options.element_bytes;
}

inline int64_t chunk_tokens(int64_t tokens, int64_t vocabulary, const UnitTableOptions& options) {
  return loss_chunk_tokens(tokens, vocabulary * options.element_bytes, loss_chunk_bytes(options.on_gpu));
}

inline int64_t head_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t vocabulary = config.padded_vocabulary() / options.tensor_ranks;
  const int64_t tokens = chunk_tokens(options.samples * config.sequence, vocabulary, options);
  // The logits, and a copy of a piece of them in the order in which the weight gradient's product reads it; the head's
  // input after its norm, its gradient, and that of the norm's input.
  return tokens * (vocabulary + std::min(vocabulary, product_copied_rows)) * options.element_bytes +
         3 * hidden_bytes(config, options);
}

inline int64_t attention_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return half_deferred_bytes(config, options, attention_columns(config, options)) + head_norm_weights(config) * 4;
}

inline int64_t ffn_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  return half_deferred_bytes(config, options, ffn_columns(config, options));
}

inline int64_t embedding_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options) {
  const int64_t tokens = options.samples * config.sequence;
  const bool learned = config.positions == Positions::learned, cut = options.tensor_ranks > 1;
  const int64_t positions = learned ? own_tokens(config, options) * 8 : 0;
  // Tokens and positions share the gradient of their sum, unless the rows of other ranks are masked in it.
  if (!cut) return hidden_bytes(config, options) + positions;
  const int64_t masked = tokens * (config.width * options.element_bytes + 8);
  return masked + positions + (learned ? hidden_bytes(config, options) : 0);
}

}  // namespace terrace::models::gpt
