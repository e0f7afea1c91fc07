// Self-attention by our kernels or torch's, the split of the joint projection into heads, and rotary positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "terrace/ops/elements/dropout.h"

namespace terrace::ops {

// Heads of a group share keys and values: head h uses group h / queries_per_group. In multi-head attention every group
// has one head of queries.
struct HeadLayout {
  int64_t groups = 0;
  int64_t queries_per_group = 1;
  int64_t head_dim = 0;

  int64_t heads() const { return groups * queries_per_group; }
  // Columns of the joint projection: for each group its queries, its key and its value, so that a range of groups is a
  // contiguous range of columns.
  int64_t columns() const { return groups * (queries_per_group + 2) * head_dim; }
  // The layout on a rank that has `part_columns` columns: whole groups, or some of the queries of one group.
  HeadLayout part(int64_t part_columns) const;
  // The head to whose queries the column belongs.
  int64_t head_of(int64_t column) const;
};

// Angles of rotary positions (Su et al., arXiv 2104.09864) in the half-split order of Llama: elements i and
// i + head_dim/2 form a pair, which is rotated by position * theta^(-2i/head_dim).
struct RotaryTable {
  at::Tensor cosines;  // [positions, head_dim/2] fp32
  at::Tensor sines;
};

// The documents that attention keeps apart; nothing defined: each sequence is one.
struct Documents {
  at::Tensor numbers = {};  // [B, T] int64, equal within a document
  // The places in all B * T tokens at which documents begin, ascending, and B * T: [documents + 1] int32. It exists
  // only where the tokens of a document are consecutive and in one sequence. If it is undefined, attention on a GPU
  // needs a mask.
  at::Tensor starts = {};
  int64_t longest = 0;  // tokens of the longest document of `starts`
};

// Says how the angles are divided for sequences longer than those of an earlier training. linear (Chen et al., arXiv
// 2306.15595): all by `factor`. llama3 (Llama 3.1): those of pairs that turn at most low_frequency times in
// original_positions by `factor`, those that turn at least high_frequency times by 1, and those between by a mean of
// the two that is linear in the number of turns. yarn (Peng et al., arXiv 2309.00071): as llama3, but the mean is
// linear in the number i of the pair, as in the authors' program and in transformers.
struct RotaryScaling {
  enum class Kind { none, linear, llama3, yarn };
  Kind kind = Kind::none;
  double factor = 1.0;
  double low_frequency = 1.0, high_frequency = 4.0;  // beta_slow and beta_fast of yarn, for a theta above 1
  int64_t original_positions = 0;
  bool whole_pairs = true;        // yarn: the mean begins and ends at whole pairs, outside of the computed ones
  double attention_factor = 1.0;  // of all cosines and sines, so that the scores have its square
};
RotaryTable rotary_table(int64_t positions, int64_t head_dim, double theta, const at::Device& device,
                         const RotaryScaling& scaling = {});

// Views [B, T, G, R or 1, hd] of the queries, keys and values in a contiguous joint [B, T, columns()].
struct JointViews {
  at::Tensor queries, keys, values;
};
JointViews joint_views(const at::Tensor& joint, const HeadLayout& layout);

struct Heads {
  at::Tensor queries;  // [B, H, T, hd]
  at::Tensor keys;     // [B, G, T, hd]
  at::Tensor values;   // [B, G, T, hd]
};

// Splits joint [B, T, columns()]. With a table, queries and keys are rotated by their positions [B, T] int64
// (undefined: 0 .. T-1); if `table` is null, the heads are views. Backward writes the gradient of `joint` in one pass.
Heads split_heads(const at::Tensor& joint, const HeadLayout& layout, const RotaryTable* table,
                  const at::Tensor& positions);

// The keys that a query sees (Raffel et al., arXiv 1910.10683, figure 3): those at or before its position, as in
// language models, or all keys of its sequence, as in vision transformers and encoders.
enum class Visibility { causal, all };

// Softmax(Q K^T / sqrt(hd)) V as [B, T, H * hd]. `mask` [B or 1, 1, T, S] bool says which keys a query sees; if it is
// undefined, `visibility` does, with T = S if causal. With a rate above 0, attention is computed by separate operations
// with dropout of the probabilities.
at::Tensor attention(const Heads& heads, const at::Tensor& mask, const DropoutSite& site, std::string_view name,
                     Visibility visibility = Visibility::causal);

// The choice of the kernels that compute attention; `fastest`: ours where they exist, torch's elsewhere.
enum class AttentionChoice { fastest, torch };

// split_heads and attention in one operation: joint [B, T, columns()] -> context [B, T, H * hd]. A query sees the keys
// that `visibility` says and, if `documents.numbers` is defined, of these only those of its document; with a
// `window` above 0, which goes with causal attention only, of these only the last `window` up to its own (Beltagy et
// al., arXiv 2004.05150; Mistral 7B, arXiv 2310.06825). Our kernels
// compute it if head_dim is at most 256 and the processor has AVX-512 (for bf16 also AVX-512 BF16) or AVX2. They read
// `joint` and write its gradient in place, with AVX-512 for fp16 by way of a copy in fp32, and keep joint, context and
// one number per query for backward. In all other cases joint_attention() calls the two functions above.
at::Tensor joint_attention(const at::Tensor& joint, const HeadLayout& layout, const RotaryTable* table,
                           const at::Tensor& positions, const Documents& documents,
                           AttentionChoice choice = AttentionChoice::fastest,
                           Visibility visibility = Visibility::causal, int64_t window = 0);

// The kernels of joint_attention() on this device for a suitable head_dim: "avx512_bf16" (bf16 and fp32), "avx512"
// (fp32), "avx2" or "torch". The choice decides the last bits of results.
std::string_view attention_instructions(const at::Device& device);

// Throws UserError for positions beyond the table's.
void check_positions(const at::Tensor& joint, const RotaryTable& table, const at::Tensor& positions);

// The keys that a query sees within its document: documents [B, T] int64 -> [B, 1, T, T] bool.
at::Tensor document_mask(const at::Tensor& documents, Visibility visibility = Visibility::causal, int64_t window = 0);

// Causal for `length` queries at the end of `total` keys: [1, 1, length, total] bool.
at::Tensor causal_mask(int64_t length, int64_t total, const at::Device& device, int64_t window = 0);

}  // namespace terrace::ops
