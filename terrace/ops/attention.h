// Causal self-attention through torch's fused kernels, the split of its input into heads, and rotary positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "terrace/ops/dropout.h"

namespace terrace::ops {

// Heads share keys and values in groups: head h uses group h / queries_per_group. With multi-head attention every group
// has one query.
struct HeadLayout {
  int64_t groups = 0;
  int64_t queries_per_group = 1;
  int64_t head_dim = 0;

  int64_t heads() const { return groups * queries_per_group; }
  // Columns of the joint projection: for each group its queries, its key and its value, so that whole groups are one
  // contiguous piece.
  int64_t columns() const { return groups * (queries_per_group + 2) * head_dim; }
  // The heads of a rank that has `columns` of them: whole groups, or a part of the queries of one.
  HeadLayout part(int64_t part_columns) const;
  // Which head's queries column `column` is in.
  int64_t head_of(int64_t column) const;
};

// Angles of rotary positions (Su et al., arXiv 2104.09864) in the half-split order of Llama: element i is paired with
// i + head_dim/2 and turns by position * theta^(-2i/head_dim).
struct RotaryTable {
  at::Tensor cosines;  // [positions, head_dim/2] fp32
  at::Tensor sines;
};
RotaryTable rotary_table(int64_t positions, int64_t head_dim, double theta, const at::Device& device);

struct Heads {
  at::Tensor queries;  // [B, H, T, hd]
  at::Tensor keys;     // [B, G, T, hd]
  at::Tensor values;   // [B, G, T, hd]
};

// Splits joint [B, T, columns()]. With a table queries and keys are rotated by their positions [B, T] int64 (undefined:
// 0 .. T-1); without one (null) the heads are views. Backward writes the joint gradient in one pass.
Heads split_heads(const at::Tensor& joint, const HeadLayout& layout, const RotaryTable* table,
                  const at::Tensor& positions);

// Softmax(Q K^T / sqrt(hd)) V as [B, T, H * hd]. `mask` [B or 1, 1, T, S] bool says which keys a query sees; undefined:
// causal, with T = S. A rate above 0 takes the unfused path with its own mask of probabilities.
at::Tensor attention(const Heads& heads, const at::Tensor& mask, const DropoutSite& site, std::string_view name);

// Which implementation serves: `fastest` takes our kernels where there are some, and torch's elsewhere.
enum class AttentionChoice { fastest, torch };

// split_heads and attention in one operation, causal, and within each document where `documents` [B, T] int64 is
// defined: joint [B, T, columns()] -> context [B, T, H * hd]. With a head_dim that 16 divides, up to 256, on processors
// with AVX-512 (for bf16 with its bf16 products), it reads joint where it lies and writes its gradient there, or fp16 a
// copy in fp32; kept for backward are joint, context and one number a query. Elsewhere it is the two functions above.
at::Tensor joint_attention(const at::Tensor& joint, const HeadLayout& layout, const RotaryTable* table,
                           const at::Tensor& positions, const at::Tensor& documents,
                           AttentionChoice choice = AttentionChoice::fastest);

// What serves joint_attention here where the head_dim allows: "avx512", "avx512_bf16" (that and fp32's "avx512"), or
// "torch". It decides the last bits of results.
std::string_view attention_instructions(const at::Device& device);

// Throws UserError for positions beyond the table's.
void check_positions(const at::Tensor& joint, const RotaryTable& table, const at::Tensor& positions);

// Causal within each document: documents [B, T] int64 -> [B, 1, T, T] bool.
at::Tensor document_mask(const at::Tensor& documents);

// Causal for `length` queries that stand at the end of `total` keys: [1, 1, length, total] bool.
at::Tensor causal_mask(int64_t length, int64_t total, const at::Device& device);

}  // namespace terrace::ops
