// Implements attention over a range of keys: checks the arguments, and calls our kernels or separate operations.
#include "terrace/ops/attention/partial_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "terrace/base/error.h"
#include "terrace/ops/attention/attention_kernels.h"
#include "terrace/ops/attention/unfused_partial_attention.h"
#include "terrace/ops/embedding.h"
#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

// Elements of all heads times the pairs of a query and a key that it sees, without regard to documents; each matrix
// product has 2 FLOPs for each.
double flops_unit(const PartialAttention& part) {
  const int64_t length = part.queries.vectors.size(1), keys = part.keys.vectors.size(1);
  const int64_t ahead = part.queries.begin - part.keys.begin;
  int64_t pairs = part.visibility == Visibility::causal ? 0 : length * keys;
  for (int64_t query = 0; part.visibility == Visibility::causal && query < length; ++query) {
    const int64_t end = std::clamp<int64_t>(query + ahead + 1, 0, keys);
    const int64_t begin = part.window > 0 ? std::clamp<int64_t>(query + ahead + 1 - part.window, 0, end) : 0;
    pairs += end - begin;
  }
  return static_cast<double>(part.queries.vectors.size(0) * part.layout.heads() * part.layout.head_dim) *
         static_cast<double>(pairs);
}

void check_tokens(const TokenRange& tokens, int64_t batch, int64_t columns, const RotaryTable& table,
                  const char* what) {
  const at::Tensor& vectors = tokens.vectors;
  TERRACE_CHECK(vectors.dim() == 3 && vectors.size(0) == batch && vectors.size(2) == columns,
                "{} of {} sequences with {} columns, not of {} with {}", what, vectors.size(0), vectors.size(-1), batch,
                columns);
  TERRACE_CHECK(vectors.stride(2) == 1, "the elements of a token of {} are {} apart", what, vectors.stride(2));
  const at::IntArrayRef shape = vectors.sizes().slice(0, 2);
  for (const at::Tensor& numbers : {tokens.positions, tokens.documents}) {
    TERRACE_CHECK(!numbers.defined() || (numbers.sizes() == shape && numbers.scalar_type() == at::kLong),
                  "positions or documents of {} have another shape than the tokens or another type than int64", what);
  }
  if (table.cosines.defined() && tokens.positions.defined()) {
    check_indices(tokens.positions, 0, table.cosines.size(0), "position");
  } else if (table.cosines.defined() && tokens.begin + shape[1] > table.cosines.size(0)) {
    throw UserError::of("places up to {} are beyond the table of rotary positions, which has {}",
                        tokens.begin + shape[1], table.cosines.size(0));
  }
}

void check_part(const PartialAttention& part) {
  const TokenRange &queries = part.queries, &keys = part.keys;
  const int64_t batch = queries.vectors.size(0);
  check_tokens(queries, batch, part.layout.columns(), part.table, "queries");
  check_tokens(keys, batch, key_value_columns(part.layout), part.table, "keys");
  TERRACE_CHECK(queries.documents.defined() == keys.documents.defined(),
                "documents of queries or of keys alone, not of both");
  TERRACE_CHECK(queries.vectors.scalar_type() == keys.vectors.scalar_type(), "queries of {} and keys of {}",
                c10::toString(queries.vectors.scalar_type()), c10::toString(keys.vectors.scalar_type()));
  TERRACE_CHECK(part.window == 0 || part.visibility == Visibility::causal,
                "a window of {} keys without causal attention", part.window);
}

// [B, T, H, hd] sums: the heads of a token lie together.
void check_sums(const at::Tensor& sums, at::IntArrayRef shape, at::ScalarType type, const char* what) {
  TERRACE_CHECK(sums.sizes() == shape && sums.scalar_type() == type, "{} of another shape or type", what);
  int64_t dense = 1;
  for (int64_t dim = sums.dim() - 1; dim >= 2; dim--) {
    TERRACE_CHECK(sums.stride(dim) == dense || sums.size(dim) == 1, "{} whose heads do not lie together", what);
    dense *= sums.size(dim);
  }
}

// [B, H, T] numbers: those of a head lie together.
void check_numbers(const at::Tensor& numbers, const PartialAttention& part, at::ScalarType type, const char* what) {
  const at::Tensor& queries = part.queries.vectors;
  TERRACE_CHECK(numbers.sizes() == at::IntArrayRef({queries.size(0), part.layout.heads(), queries.size(1)}) &&
                    numbers.scalar_type() == type && (numbers.stride(2) == 1 || numbers.size(2) == 1),
                "{} of another shape, type or order", what);
}

at::ScalarType sum_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

// The documents as kernels take them.
at::Tensor padded_documents(const at::Tensor& documents) {
  const int64_t length = documents.size(1), padded = (length + 15) / 16 * 16;
  at::Tensor result = at::full({documents.size(0), padded}, -1, at::TensorOptions().dtype(at::kInt));
  result.narrow(1, 0, length).copy_(documents);
  return result;
}

// The part as kernels take it.
PartialAttention prepared(PartialAttention part) {
  for (TokenRange* tokens : {&part.queries, &part.keys}) {
    const int64_t batch = tokens->vectors.size(0), length = tokens->vectors.size(1);
    if (tokens->documents.defined()) tokens->documents = padded_documents(tokens->documents);
    if (!part.table.cosines.defined()) {
      tokens->positions.reset();
    } else if (!tokens->positions.defined()) {
      tokens->positions = at::arange(tokens->begin, tokens->begin + length, at::kLong).expand({batch, length});
    } else if (length > 1 && tokens->positions.stride(1) != 1) {
      tokens->positions = tokens->positions.contiguous();
    }
  }
  return part;
}

const AttentionKernels* kernels_of(const at::Tensor& tensor, const HeadLayout& layout, AttentionChoice choice) {
  if (choice == AttentionChoice::torch) return nullptr;
  return attention_kernels(tensor.device(), tensor.scalar_type(), layout);
}

bool is_empty(const PartialAttention& part) {
  return part.queries.vectors.numel() == 0 || part.keys.vectors.numel() == 0;
}

}  // namespace

int64_t key_value_columns(const HeadLayout& layout) { return layout.groups * 2 * layout.head_dim; }

at::Tensor keys_and_values(const at::Tensor& joint, const HeadLayout& layout) {
  at::NoGradGuard no_grad;
  const int64_t batch = joint.size(0), length = joint.size(1), per_group = layout.queries_per_group;
  const at::Tensor grouped = joint.view({batch, length, layout.groups, per_group + 2, layout.head_dim});
  const at::Tensor copy = at::empty({batch, length, layout.groups, 2, layout.head_dim}, joint.options());
  copy.copy_(grouped.narrow(3, per_group, 2));
  return copy.view({batch, length, key_value_columns(layout)});
}

RunningContext empty_context(const at::Tensor& joint, const HeadLayout& layout) {
  const int64_t batch = joint.size(0), length = joint.size(1);
  const at::TensorOptions options = joint.options().requires_grad(false).dtype(sum_type(joint.scalar_type()));
  return {at::zeros({batch, length, layout.heads(), layout.head_dim}, options),
          at::full({batch, layout.heads(), length}, -std::numeric_limits<double>::infinity(), options)};
}

void add_attention(const PartialAttention& part, const RunningContext& running, AttentionChoice choice) {
  at::NoGradGuard no_grad;
  check_part(part);
  const at::Tensor& queries = part.queries.vectors;
  const at::ScalarType type = sum_type(queries.scalar_type());
  check_sums(running.context, {queries.size(0), queries.size(1), part.layout.heads(), part.layout.head_dim}, type,
             "a running context");
  check_numbers(running.log_sums, part, type, "log sums");
  if (is_empty(part)) return;
  const profile::OperationRecord record("terrace::partial_attention", [&] {
    return profile::OperationCost{.flops = 4 * flops_unit(part),
                                  .bytes = profile::bytes_of({queries, part.keys.vectors}) +
                                           2 * profile::bytes_of({running.context, running.log_sums})};
  });
  if (const AttentionKernels* kernels = kernels_of(queries, part.layout, choice)) {
    kernels->add(prepared(part), running);
  } else {
    add_attention_unfused(part, running);
  }
}

at::Tensor final_context(const RunningContext& running, at::ScalarType type) {
  at::NoGradGuard no_grad;
  return running.context.to(type).flatten(2);
}

at::Tensor context_products(const at::Tensor& context, const at::Tensor& context_gradient, const HeadLayout& layout,
                            AttentionChoice choice) {
  at::NoGradGuard no_grad;
  const int64_t batch = context.size(0), length = context.size(1);
  TERRACE_CHECK(context.sizes() == context_gradient.sizes() && context.size(2) == layout.heads() * layout.head_dim &&
                    context.scalar_type() == context_gradient.scalar_type(),
                "a gradient of {} columns of a context of {}", context_gradient.size(-1), context.size(-1));
  TERRACE_CHECK(context.stride(2) == 1 && context_gradient.stride(2) == 1,
                "a context whose elements do not lie together");
  const at::ScalarType type = sum_type(context.scalar_type());
  if (const AttentionKernels* kernels = kernels_of(context, layout, choice)) {
    const at::Tensor products = at::empty({batch, layout.heads(), length}, context.options().dtype(type));
    if (length > 0) kernels->context_products(layout, context, context_gradient, products);
    return products;
  }
  return context.to(type)
      .mul(context_gradient)
      .view({batch, length, layout.heads(), -1})
      .sum(3)
      .transpose(1, 2)
      .contiguous();
}

void add_attention_gradients(const PartialAttention& part, const at::Tensor& log_sums, const at::Tensor& products,
                             const at::Tensor& context_gradient, const PartialGradients& gradients,
                             AttentionChoice choice) {
  at::NoGradGuard no_grad;
  check_part(part);
  const at::Tensor &queries = part.queries.vectors, &keys = part.keys.vectors;
  const at::ScalarType type = sum_type(queries.scalar_type());
  const HeadLayout& layout = part.layout;
  check_numbers(log_sums, part, type, "log sums");
  check_numbers(products, part, type, "products of the context");
  check_sums(context_gradient, {queries.size(0), queries.size(1), layout.heads() * layout.head_dim},
             queries.scalar_type(), "a gradient of the context");
  check_sums(gradients.queries, {queries.size(0), queries.size(1), layout.heads(), layout.head_dim}, type,
             "gradients of queries");
  check_sums(gradients.keys_values, {keys.size(0), keys.size(1), layout.groups, 2, layout.head_dim}, type,
             "gradients of keys and values");
  if (is_empty(part)) return;
  const profile::OperationRecord record("terrace::partial_attention_backward", [&] {
    return profile::OperationCost{.flops = 10 * flops_unit(part),
                                  .bytes = profile::bytes_of({queries, keys, log_sums, products, context_gradient}) +
                                           2 * profile::bytes_of({gradients.queries, gradients.keys_values})};
  });
  if (const AttentionKernels* kernels = kernels_of(queries, layout, choice)) {
    kernels->add_gradients(prepared(part), log_sums, products, context_gradient, gradients);
  } else {
    add_gradients_unfused(part, log_sums, products, context_gradient, gradients);
  }
}

void write_query_gradients(const at::Tensor& queries, const HeadLayout& layout, const at::Tensor& joint_gradient) {
  at::NoGradGuard no_grad;
  const at::Tensor columns = joint_views(joint_gradient, layout).queries;
  columns.copy_(queries.view(columns.sizes()));
}

void write_key_value_gradients(const at::Tensor& keys_values, const HeadLayout& layout,
                               const at::Tensor& joint_gradient) {
  at::NoGradGuard no_grad;
  const JointViews views = joint_views(joint_gradient, layout);
  views.keys.copy_(keys_values.narrow(3, 0, 1));
  views.values.copy_(keys_values.narrow(3, 1, 1));
}

}  // namespace terrace::ops
