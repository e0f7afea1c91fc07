// Traces the blocks of a transformer, in the order in which models/transformer/blocks.cpp computes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/layers/unit_trace.h"
#include "terrace/schedule/unit_table.h"

namespace terrace::layers {

// The settings of blocks that decide on their operations and bytes; models::BlockOptions has the same and others.
struct TransformerLayout {
  int64_t layers = 0, width = 0, ffn_width = 0, positions = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true;
  int64_t window = 0;        // as in AttentionLayout
  int64_t global_every = 0;  // every n-th layer has no window; 0: none
  NormLayout norm = {};
  bool post_norms = false;                               // norms of both branches before they are added
  bool normalises_heads = false, centers_heads = false;  // HeadNormLayout::centered
  Activation activation = Activation::gelu;
  bool activation_in_product = true;  // as in UnitTrace::activation()
  int64_t ffn_groups = 0;             // RowGroups::groups of the feed-forward's first matrix
  bool bias = true, qkv_bias = true;
  double dropout = 0.0, attention_dropout = 0.0, inner_dropout = 0.0;
  // Sparse feed-forwards, of layers from `dense_layers` on; none without experts.
  ExpertLayout experts = {};
  int64_t dense_layers = 0, shared_experts = 0;
  bool shared_gate = false;
  std::vector<double> drop_paths = {};              // the rate of each layer; empty for models without stochastic depth
  bool by_document = false;                         // as in AttentionLayout
  std::vector<std::string> attention_tensors = {};  // tensors of the batch that attention reads
};

// Appends the two units of each layer, blocks.N.attention and blocks.N.ffn, to the table.
void add_blocks(const TransformerLayout& layout, const schedule::UnitTableOptions& options, schedule::UnitTable& table);

}  // namespace terrace::layers
