// Messages that are products of what an atom has and what an edge has, summed over the edges of each atom, without ever
// being written out. The products are linear in each factor, so the derivatives of each of these functions are other
// ones of them: all have derivatives of any order. No result depends on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "terrace/ops/graphs/segments.h"

namespace terrace::ops {

// E edges of N atoms and P pairs, whose numbers of edges are kept once. An edge that brings a message from atom j to i
// and the one that brings one back are one pair, if they have the same factors but for the sign of their direction; the
// factors of the pair are those of its first edge. Where edges are not mutual, each is a pair.
struct Pairs {
  Segments received;         // the edges of each receiver; rows are the receivers
  Segments sent;             // the edges of each sender; rows are the senders
  at::Tensor pairs;          // [E] int64, the pair of each edge; undefined: its own number
  at::Tensor first_edges;    // [P] int64, the first edge of each pair; undefined: all edges
  at::Tensor opposite = {};  // [E] uint8, 1 for the second edge of a pair; undefined: none is
  bool mutual() const { return pairs.defined(); }
  int64_t num_atoms() const { return received.num_rows(); }
  int64_t num_pairs() const { return mutual() ? first_edges.size(0) : received.rows.size(0); }
};

// Makes the pairs of the edges from senders to receivers [E], which ascend, with the tensors of a batch of graphs
// (data/graphs). `pairs` and `first_edges` are undefined where edges are not mutual.
Pairs pairs_of(const Segments& received, const Segments& sent, const at::Tensor& pairs, const at::Tensor& first_edges);

// Returns the sum over the edges that an atom receives of w[pair] * x[sender]: [N, R, D] of x [N, R, D] and w [P, D]; R
// may be missing. Sums are computed in fp32 (double for double) in the order of the edges, and rounded once.
at::Tensor message_sum(const at::Tensor& x, const at::Tensor& w, const Pairs& pairs);

// Returns for each pair the sum over r of a[receiver] * b[sender], and with receiver and sender exchanged where edges
// are mutual: [P, D] of a and b [N, R, D]; R may be missing.
at::Tensor message_product(const at::Tensor& a, const at::Tensor& b, const Pairs& pairs);

// The next four functions also take a direction u [P, 3] of each pair, from its receiver to its sender, which has the
// opposite sign for the pair's second edge.
//
// Returns the sum over the edges that an atom receives of u[k] * w[pair] * x[sender]: [N, 3, D] of x [N, D] and
// w [P, D].
at::Tensor directed_sum(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u, const Pairs& pairs);
// Returns the sum over the edges that an atom sends of the sum over k of u[k] * w[pair] * v[receiver, k]: [N, D] of v
// [N, 3, D].
at::Tensor directed_dot(const at::Tensor& v, const at::Tensor& w, const at::Tensor& u, const Pairs& pairs);
// Returns for each pair, over its edges, the sum over k of u[k] * v[receiver, k] * x[sender]: [P, D].
at::Tensor directed_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& u, const Pairs& pairs);
// Returns for each pair, over its edges, the sum over D of v[receiver, k] * w * x[sender], with the edge's sign: [P,
// 3].
at::Tensor direction_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& w, const Pairs& pairs);

}  // namespace terrace::ops
