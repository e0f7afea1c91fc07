// Messages along the edges of a graph: rows that are read for each edge, and sums and extremes over the edges of each
// row. All have derivatives of any order, and none depends on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace terrace::ops {

// The row to which each of E elements belongs, such as the receiver of an edge, or the graph of an atom. All int64 and
// contiguous.
struct Segments {
  at::Tensor rows;  // [E], each below N
  at::Tensor
      order;  // [E], the elements sorted by row, those of a row in the order of sums; undefined where rows ascend
  at::Tensor first;  // [N + 1], the first place in `order` of each row; the last one is E

  int64_t num_rows() const { return first.size(0) - 1; }
};

// The segments of `rows` [E] among N rows. `order` keeps the order of the elements of a row.
Segments segments_of(const at::Tensor& rows, int64_t num_rows);

// x[rows[e]] of x [N, ..]: [E, ..].
at::Tensor gather(const at::Tensor& x, const Segments& segments);

// The sum over the elements of each row, 0 for rows without any: [N, ..] of x [E, ..]. It is computed in fp32 (double
// for double), element after element, and rounded once.
at::Tensor segment_sum(const at::Tensor& x, const Segments& segments);

// The sum over the elements e of each row of `to` of x[from.rows[e]]: [M, ..] of x [N, ..] for M rows of `to` and N of
// `from`. It has the bits of gather and segment_sum, but nothing is written for each element.
at::Tensor gathered_sum(const at::Tensor& x, const Segments& from, const Segments& to);

// The largest and the smallest number of each column over the elements of a row, 0 for rows without any: [N, D] of
// x [E, D]. The derivative is that of the first element in the order of sums that has it.
at::Tensor segment_max(const at::Tensor& x, const Segments& segments);
at::Tensor segment_min(const at::Tensor& x, const Segments& segments);

}  // namespace terrace::ops
