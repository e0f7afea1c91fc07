// Declares the CPU kernels; terrace/ops/kernels.h says what they compute.
#pragma once

#include "terrace/ops/kernels.h"

namespace terrace::ops::cpu {

void add(const at::Tensor& into, const at::Tensor& from);
void add_column_sums(const at::Tensor& into, const at::Tensor& from);
void add_rows(const at::Tensor& into, const at::Tensor& indices, const at::Tensor& from);
void sum_segments(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first, const at::Tensor& sums);
void extremes_of_segments(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first, bool largest,
                          const at::Tensor& found);
void message_sum(const at::Tensor& x, const at::Tensor& w, const MessageLists& lists, const at::Tensor& sums);
void message_product(const at::Tensor& a, const at::Tensor& b, const PairEnds& ends, const at::Tensor& products);
void directed_sum(const at::Tensor& x, const at::Tensor& w, const at::Tensor& u, const MessageLists& lists,
                  const at::Tensor& sums);
void directed_dot(const at::Tensor& v, const at::Tensor& w, const at::Tensor& u, const MessageLists& lists,
                  const at::Tensor& sums);
void directed_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& u, const PairEnds& ends,
                      const at::Tensor& products);
void direction_product(const at::Tensor& v, const at::Tensor& x, const at::Tensor& w, const PairEnds& ends,
                       const at::Tensor& products);
void norm(const NormShape& shape, const NormForward& t);
void norm_backward(const NormShape& shape, const NormBackward& t);
void swiglu(const at::Tensor& x, const at::Tensor& y);
void swiglu_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx);
void softplus(const at::Tensor& x, double shift, const at::Tensor& y);
void rotate(const at::Tensor& in, const at::Tensor& out, const at::Tensor& cosines, const at::Tensor& sines,
            const at::Tensor& positions, int direction);
void copy_heads(const at::Tensor& in, const at::Tensor& out);
void dropout(const DropoutDraw& draw, const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out);
void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, int64_t vocabulary, double gradient_scale,
                   const at::Tensor& losses);
void encode_blocks(const BlockCoding& coding, const at::Tensor& values, const at::Tensor& payloads);
void decode_blocks(const BlockCoding& coding, const at::Tensor& payloads, const at::Tensor& into);

}  // namespace terrace::ops::cpu
