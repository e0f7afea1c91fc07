// What a GPT costs, in closed form from its configuration.
#pragma once

#include <cstdint>

#include "terrace/models/gpt/cost/config.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::models::gpt {

// Trained numbers, the padding of the vocabulary included; a tied head counts once.
int64_t parameter_count(const ModelConfig& config);

// Whether the products of queries with keys and of probabilities with values are counted for every pair of tokens, or
// for the pairs that a causal model uses: half. The papers' formulas, and `mfu` in our metrics, count in full.
enum class AttentionCount { full, causal_half };

// Floating-point operations of the matrix products of one forward pass over one sequence, in all blocks together or in
// the output layer. Two for each multiply-add.
double block_forward_flops(const ModelConfig& config, AttentionCount attention);
double attention_forward_flops(const ModelConfig& config, AttentionCount attention);  // a part of the former
double ffn_forward_flops(const ModelConfig& config);                                  // likewise
double head_forward_flops(const ModelConfig& config);

// Of a training step: backward costs twice the forward. For multi-head attention and an ffn_width of 4 h this is
// F = 72 B s l h^2 (1 + s/(6h)) + 6 B s h V (arXiv 2312.12705), with V padded.
double model_flops(const ModelConfig& config, int64_t sequences, AttentionCount attention);

// What is executed: model_flops and what recompute repeats, every block once (full) or the attention core once
// (selective). The fused kernel's own recompute in backward is not counted.
double hardware_flops(const ModelConfig& config, int64_t sequences, AttentionCount attention,
                      config::Recompute recompute);

using schedule::UnitTableOptions;

// Bytes of a hidden state [B, T, D]: what passes between units and between pipeline stages.
int64_t hidden_bytes(const ModelConfig& config, const UnitTableOptions& options);
// Bytes that attention, with the norm before it, and the feed-forward network, likewise, keep from their forward to
// their backward, the input included and the output not, with our attention kernels; with recompute = "full" the input
// alone. See "Activations" in docs/sharding.md.
int64_t attention_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute);
int64_t ffn_kept_bytes(const ModelConfig& config, const UnitTableOptions& options, config::Recompute recompute);
// The embedding's: indices, not its output.
int64_t embedding_kept_bytes(const ModelConfig& config, const UnitTableOptions& options);

// Bytes that each keeps from a backward that defers its weight gradients to these, whatever is recomputed. See "Weight
// inputs" in docs/sharding.md.
int64_t attention_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t ffn_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);
int64_t embedding_deferred_bytes(const ModelConfig& config, const UnitTableOptions& options);

}  // namespace terrace::models::gpt
