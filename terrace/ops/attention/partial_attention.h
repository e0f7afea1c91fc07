// Attention of consecutive queries to consecutive keys of the same sequences, whose results over several ranges of keys
// are merged. It is what a rank computes of sequences that are cut over ranks: in ring attention (Liu et al., arXiv
// 2310.01889), after a gather of keys and values (Llama 3, arXiv 2407.21783, section 3.3.2), or over the neighbours
// within a window. Nothing here communicates, and nothing is recorded by autograd: the caller's function calls forward
// and backward.
//
//   forward:  running = empty_context(..); for each range of keys add_attention(part, running);
//             context = final_context(running, type)
//   backward: products = context_products(context, context_gradient, ..);
//             for each range of keys add_attention_gradients(part, .., gradients);
//             write_query_gradients(..), write_key_value_gradients(..)
//
// All sums are fp32, for double tensors double, and are rounded to the type of the model only once, at the end: so the
// error does not grow with the number of ranges. Every sum has a fixed order for a given order of calls, so that the
// number of threads does not change a bit. Batches B, queries T and keys S may be of any size; with T = 0 or S = 0
// nothing happens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "terrace/ops/attention/attention.h"

namespace terrace::ops {

// Consecutive tokens of each of B sequences, as queries or as keys with their values.
struct TokenRange {
  // As queries: the joint projection [B, T, layout.columns()], of which the queries' columns are read. As keys: [B, S,
  // key_value_columns(layout)], for each group its key and then its value. A narrow() of either in dimension 1 is
  // read in place; only the elements of a token must lie together.
  //
  // Keys are not rotated yet: rotating a key takes 3 operations an element, less than 1/1000 of the products in which
  // 256 queries or more use it, and a key that was rotated in bf16 before would be rounded once more than in
  // joint_attention().
  at::Tensor vectors;
  int64_t begin = 0;  // the place of the first token in the whole sequence
  // Rotary positions [B, T or S] int64: since they may begin again in each document, they are not the places.
  // Undefined: the places.
  at::Tensor positions = {};
  // [B, T or S] int64: for each token the first place of its document in the whole sequence, so that the numbers of two
  // tokens are equal exactly if they are in the same document. Undefined, for queries and keys together: each sequence
  // is one document.
  at::Tensor documents = {};
};

struct PartialAttention {
  HeadLayout layout;
  RotaryTable table = {};  // undefined: no rotation
  // Causal: a query sees the keys whose place is at most its own; with a `window` above 0 of these only those whose
  // place is greater than its own less `window`. In both cases only keys of its document.
  Visibility visibility = Visibility::causal;
  int64_t window = 0;
  TokenRange queries, keys;
};

// groups * 2 * head_dim.
int64_t key_value_columns(const HeadLayout& layout);

// The keys and values of joint [B, S, layout.columns()] as [B, S, key_value_columns(layout)], a copy.
at::Tensor keys_and_values(const at::Tensor& joint, const HeadLayout& layout);

// The context of the keys so far, fp32, or double for double queries. A narrow() of both in the dimension T is written
// in place.
struct RunningContext {
  at::Tensor context;   // [B, T, H, hd]; 0 for a query that has seen no key
  at::Tensor log_sums;  // [B, H, T]: the binary logarithm of the sum of exponentials; -infinity if there was no key
};
// The context of no key yet, for the queries of `joint`.
RunningContext empty_context(const at::Tensor& joint, const HeadLayout& layout);

// Merges Softmax(Q K^T / sqrt(hd)) V of the part into the running context: with o' and l' of the part's keys, context
// o += (o' - o) / (1 + 2^(l - l')) and log sum l = log2(2^l + 2^l'), without forming 2^l. A query that sees no key of
// the part keeps what it has. Throws UserError for positions beyond the table's.
void add_attention(const PartialAttention& part, const RunningContext& running,
                   AttentionChoice choice = AttentionChoice::fastest);

// The running context, rounded to the type: [B, T, H * hd].
at::Tensor final_context(const RunningContext& running, at::ScalarType type);

// For each query the sum of context * context_gradient, both [B, T, H * hd] in the type of the model: [B, H, T] fp32 or
// double. All ranges of keys use it.
at::Tensor context_products(const at::Tensor& context, const at::Tensor& context_gradient, const HeadLayout& layout,
                            AttentionChoice choice = AttentionChoice::fastest);

// Sums of the gradients of queries and of keys and values before their rotation, fp32 or double. They begin with zeros;
// a narrow() in dimension 1 is written in place.
struct PartialGradients {
  at::Tensor queries;      // [B, T, H, hd]
  at::Tensor keys_values;  // [B, S, groups, 2, hd]
};

// Adds the gradients of the part. `log_sums` are those of the running context after all ranges of keys, `products`
// those of context_products(); context_gradient [B, T, H * hd] has the type of the queries.
void add_attention_gradients(const PartialAttention& part, const at::Tensor& log_sums, const at::Tensor& products,
                             const at::Tensor& context_gradient, const PartialGradients& gradients,
                             AttentionChoice choice = AttentionChoice::fastest);

// Write the sums, rounded to its type, into their columns of the gradient of the joint projection [B, T,
// layout.columns()].
void write_query_gradients(const at::Tensor& queries, const HeadLayout& layout, const at::Tensor& joint_gradient);
void write_key_value_gradients(const at::Tensor& keys_values, const HeadLayout& layout,
                               const at::Tensor& joint_gradient);

}  // namespace terrace::ops
