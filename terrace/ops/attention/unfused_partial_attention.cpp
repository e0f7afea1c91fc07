// Implements attention over a range of keys by separate operations, some queries at a time.
#include "terrace/ops/attention/unfused_partial_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/logaddexp2.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "terrace/ops/kernels.h"

namespace terrace::ops {
namespace {

constexpr int64_t score_bytes = int64_t{64} << 20;  // of the scores that exist at a time, if one query has fewer
constexpr double no_key = -std::numeric_limits<double>::infinity();  // the logarithm of no exponential

struct QueryRows {
  int64_t begin, count;  // of queries
};

at::Tensor positions_of(const TokenRange& tokens, QueryRows rows) {
  if (tokens.positions.defined()) return tokens.positions.narrow(1, rows.begin, rows.count);
  const int64_t first = tokens.begin + rows.begin;
  const auto options = at::TensorOptions().dtype(at::kLong).device(tokens.vectors.device());
  return at::arange(first, first + rows.count, options).expand({tokens.vectors.size(0), rows.count});
}

// vectors [B, n, G, R, hd], rotated by the positions of the tokens, or back if the direction is -1.
at::Tensor rotated(const at::Tensor& vectors, const RotaryTable& table, const at::Tensor& positions, int direction) {
  if (!table.cosines.defined()) return vectors;
  const at::Tensor dense = vectors.contiguous(), result = at::empty_like(dense);
  kernels(dense.device()).rotate(dense, result, table.cosines, table.sines, positions, direction);
  return result;
}

// [B, n, G, R, hd] <-> [B, G, R, n, hd].
at::Tensor by_group(const at::Tensor& rows) { return rows.permute({0, 2, 3, 1, 4}); }
at::Tensor by_token(const at::Tensor& rows) { return rows.permute({0, 3, 1, 2, 4}); }

// The keys and values of a part, and its queries, some rows at a time.
class Chunks {
 public:
  Chunks(const PartialAttention& part, at::ScalarType type)
      : part_(part),
        layout_(part.layout),
        batch_(part.queries.vectors.size(0)),
        length_(part.queries.vectors.size(1)),
        keys_(part.keys.vectors.size(1)) {
    const at::Tensor both =
        part.keys.vectors.to(type).view({batch_, keys_, layout_.groups, 2, layout_.head_dim});  // [B, S, G, 2, hd]
    const at::Tensor turned = rotated(both.narrow(3, 0, 1), part.table, positions_of(part.keys, {0, keys_}), 1);
    keys = by_group(turned);                  // [B, G, 1, S, hd]
    values = by_group(both.narrow(3, 1, 1));  // [B, G, 1, S, hd]
    const int64_t bytes = batch_ * layout_.heads() * keys_ * static_cast<int64_t>(keys.element_size());
    rows_ = std::max<int64_t>(1, score_bytes / std::max<int64_t>(1, bytes));
  }

  template <typename Body>
  void for_each(const Body& body) const {
    for (int64_t begin = 0; begin < length_; begin += rows_) {
      const QueryRows rows{begin, std::min(rows_, length_ - begin)};
      if (sees_keys(rows)) body(rows);
    }
  }

  // [B, G, R, n, hd], rotated.
  at::Tensor queries(QueryRows rows) const {
    const at::Tensor columns = part_.queries.vectors.narrow(1, rows.begin, rows.count)
                                   .view({batch_, rows.count, layout_.groups, -1, layout_.head_dim})
                                   .narrow(3, 0, layout_.queries_per_group)
                                   .to(keys.scalar_type());
    return by_group(rotated(columns, part_.table, positions_of(part_.queries, rows), 1));
  }

  // The binary logarithms of the exponentials, [B, G, R, n, S]; no_key for keys that are not seen.
  at::Tensor scores(QueryRows rows, const at::Tensor& queries) const {
    const double factor = scale() * std::numbers::log2e;
    const at::Tensor products = at::matmul(queries, keys.transpose(-2, -1)).mul(factor);
    const at::Tensor hidden = hidden_keys(rows);
    return hidden.defined() ? products.masked_fill(hidden, no_key) : products;
  }

  double scale() const { return 1.0 / std::sqrt(static_cast<double>(layout_.head_dim)); }

  // Numbers [B, H, T] of the rows as [B, G, R, n, 1].
  at::Tensor numbers(const at::Tensor& of_heads, QueryRows rows) const {
    return of_heads.narrow(2, rows.begin, rows.count)
        .unflatten(1, {layout_.groups, layout_.queries_per_group})
        .unsqueeze(-1);
  }
  // Some rows of heads [B, T, H * hd] or [B, T, H, hd] as [B, G, R, n, hd].
  at::Tensor heads(const at::Tensor& of_tokens, QueryRows rows) const {
    return by_group(of_tokens.narrow(1, rows.begin, rows.count)
                        .view({batch_, rows.count, layout_.groups, layout_.queries_per_group, layout_.head_dim}));
  }

  at::Tensor keys, values;

 private:
  bool sees_keys(QueryRows rows) const {
    if (part_.visibility == Visibility::all) return true;
    const int64_t first = part_.queries.begin + rows.begin, last = first + rows.count - 1;
    const bool after_window = part_.window > 0 && part_.keys.begin + keys_ - 1 <= first - part_.window;
    return part_.keys.begin <= last && !after_window;
  }

  // [B or 1, 1, 1, n, S], or undefined.
  at::Tensor hidden_keys(QueryRows rows) const {
    at::Tensor hidden;
    if (part_.visibility == Visibility::causal) {
      const auto options = at::TensorOptions().dtype(at::kLong).device(keys.device());
      const int64_t first = part_.queries.begin + rows.begin;
      const at::Tensor query = at::arange(first, first + rows.count, options).unsqueeze(1);
      const at::Tensor key = at::arange(part_.keys.begin, part_.keys.begin + keys_, options);
      hidden = key.gt(query);
      if (part_.window > 0) hidden = hidden.logical_or(key.le(query.sub(part_.window)));
      hidden = hidden.view({1, 1, 1, rows.count, keys_});
    }
    if (part_.queries.documents.defined()) {
      const at::Tensor query = part_.queries.documents.narrow(1, rows.begin, rows.count);
      const at::Tensor other =
          query.unsqueeze(2).ne(part_.keys.documents.unsqueeze(1)).view({batch_, 1, 1, rows.count, keys_});
      hidden = hidden.defined() ? hidden.logical_or(other) : other;
    }
    return hidden;
  }

  const PartialAttention& part_;
  const HeadLayout& layout_;
  int64_t batch_, length_, keys_, rows_ = 1;
};

}  // namespace

void add_attention_unfused(const PartialAttention& part, const RunningContext& running) {
  const Chunks chunks(part, running.context.scalar_type());
  chunks.for_each([&](QueryRows rows) {
    const at::Tensor scores = chunks.scores(rows, chunks.queries(rows));
    const at::Tensor top = scores.amax(-1, true);  // [B, G, R, n, 1]
    const at::Tensor unseen = top.eq(no_key);
    const at::Tensor powers = at::exp2(scores.sub(top.masked_fill(unseen, 0.0)));
    const at::Tensor sum = powers.sum(-1, true);
    // If a query sees no key, its sum is 0, and so are its context and its share.
    const at::Tensor context = at::matmul(powers, chunks.values).div(sum.masked_fill(unseen, 1.0));
    const at::Tensor log_sum = top.add(sum.log2()).masked_fill(unseen, no_key);
    const at::Tensor all = chunks.numbers(running.log_sums, rows), into = chunks.heads(running.context, rows);
    const at::Tensor share = at::exp2(all.sub(log_sum)).add(1.0).reciprocal().masked_fill(unseen, 0.0);
    into.add_(context.sub(into).mul(share));
    all.copy_(at::where(unseen, all, at::logaddexp2(all, log_sum)));
  });
}

void add_gradients_unfused(const PartialAttention& part, const at::Tensor& log_sums, const at::Tensor& products,
                           const at::Tensor& context_gradient, const PartialGradients& gradients) {
  const at::ScalarType type = log_sums.scalar_type();
  const Chunks chunks(part, type);
  const at::Tensor key_gradients = at::zeros_like(chunks.keys), value_gradients = at::zeros_like(chunks.values);
  chunks.for_each([&](QueryRows rows) {
    const at::Tensor queries = chunks.queries(rows), upstream = chunks.heads(context_gradient, rows).to(type);
    const at::Tensor log_sum = chunks.numbers(log_sums, rows);
    const at::Tensor probabilities =
        at::exp2(chunks.scores(rows, queries).sub(log_sum.masked_fill(log_sum.eq(no_key), 0.0)));
    const at::Tensor changes = at::matmul(upstream, chunks.values.transpose(-2, -1));
    const at::Tensor of_scores =
        changes.sub(chunks.numbers(products, rows)).mul(probabilities).mul(chunks.scale());  // [B, G, R, n, S]
    value_gradients.add_(at::matmul(probabilities.transpose(-2, -1), upstream).sum(2, true));
    key_gradients.add_(at::matmul(of_scores.transpose(-2, -1), queries).sum(2, true));
    const at::Tensor own = by_token(at::matmul(of_scores, chunks.keys));  // [B, n, G, R, hd]
    gradients.queries.narrow(1, rows.begin, rows.count)
        .view(own.sizes())
        .add_(rotated(own, part.table, positions_of(part.queries, rows), -1));
  });
  const at::Tensor turned_back =
      rotated(by_token(key_gradients), part.table, positions_of(part.keys, {0, part.keys.vectors.size(1)}), -1);
  gradients.keys_values.narrow(3, 0, 1).add_(turned_back);
  gradients.keys_values.narrow(3, 1, 1).add_(by_token(value_gradients));
}

}  // namespace terrace::ops
