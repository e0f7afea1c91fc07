// Gives parameters, floating-point operations and bytes of a GPT in closed form from its configuration.
#pragma once

#include <cstdint>

#include "terrace/models/gpt/settings/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gpt {

// The number of trained parameters, including the padding of the vocabulary; a tied head counts once.
int64_t parameter_count(const ModelConfig& config);

// Whether the products of queries with keys and of probabilities with values are counted for every pair of tokens, or
// only for the half of the pairs that a causal model uses. The papers' formulas, and `mfu` in our metrics, count every
// pair. With a window W of a sequence s, W (s - W/2) pairs are that half, and twice as many count as all.
enum class AttentionCount { full, causal_half };

// Floating-point operations of the matrix products of one forward pass over one sequence, in all blocks together or in
// the output layer. Two for each multiply-add.
double block_forward_flops(const ModelConfig& config, AttentionCount attention);
double attention_forward_flops(const ModelConfig& config, AttentionCount attention);  // included above
double ffn_forward_flops(const ModelConfig& config);                                  // included in block_forward_flops
double head_forward_flops(const ModelConfig& config);

// Operations of a training step, whose backward costs twice its forward. For multi-head attention and an ffn_width of 4
// h this is F = 72 B s l h^2 (1 + s/(6h)) + 6 B s h V (arXiv 2312.12705), with V padded.
double model_flops(const ModelConfig& config, int64_t sequences, AttentionCount attention);

// The operations that are executed: model_flops and those that recompute repeats, every block once (full) or the
// attention core once (selective). The fused kernel's own recompute in backward is not counted.
double hardware_flops(const ModelConfig& config, int64_t sequences, AttentionCount attention,
                      config::Recompute recompute);

using schedule::UnitTableOptions;

// Bytes of the hidden states [B, T, D], which pass between units and between pipeline stages.
int64_t hidden_bytes(const ModelConfig& config, const UnitTableOptions& options);
// Bytes that attention and the feed-forward network, each with the norm before it, keep from forward to backward with
// our attention kernels: they include the input but not the output. With recompute = "full" only the input is kept. See
// "Activations" in docs/sharding.md.
int64_t attention_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute);

// The mask of attention of one layer on a GPU, which has a row of keys for each query: for documents and for a window,
// where the type or the heads are not those of ops::flash_attention() or probabilities are dropped. 0 where there is
// none, and on CPUs, whose kernels need none. Masks that AMD's GPUs need besides are not counted.
struct MaskBytes {
  int64_t kept = 0;       // in the type of the scores; with recompute only while attention is computed again
  int64_t temporary = 0;  // while it is made
};
MaskBytes mask_bytes(const ModelConfig& config, const UnitTableOptions& options, bool documents);
int64_t ffn_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute);
// The same for the embedding, which keeps indices.
int64_t embedding_kept_bytes(const ModelConfig& config, const UnitTableOptions& options);

// Bytes of the largest tensors that exist only while a unit or its gradients are computed: gradients between the
// products of a half of a block and of its input and output; a chunk of logits and the gradient of the head's input.
int64_t attention_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t ffn_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t head_temporary_bytes(const ModelConfig& config, const UnitTableOptions& options);

// The tokens whose logits exist at a time, as in ops/vocabulary_loss, on a rank with so many rows of the vocabulary.
int64_t chunk_tokens(int64_t tokens, int64_t vocabulary, const UnitTableOptions& options);

// Bytes that each unit keeps from a backward that defers its weight gradients until they are computed; recompute does
// not change them. See "Weight inputs" in docs/sharding.md.
int64_t attention_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t ffn_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t embedding_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);

}  // namespace terrace::models::gpt
