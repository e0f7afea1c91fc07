// Calls our kernel, or torch's attention for one sequence after another.
#include "terrace/ops/attention/cached_attention.h"

#include <ATen/ops/empty.h>

#include "terrace/base/error.h"
#include "terrace/ops/cpu/decode_attention.h"
#include "terrace/profile/record.h"

namespace terrace::ops {
namespace {

void attend_one_by_one(const Heads& heads, const CachedKeys& cache, const at::Tensor& context) {
  for (size_t row = 0; row < cache.slots.size(); ++row) {
    const auto b = static_cast<int64_t>(row), size = cache.sizes[row] + 1;
    const at::Tensor keys = cache.keys.narrow(0, cache.slots[row], 1).narrow(2, 0, size);  // [1, G, size, hd]
    const at::Tensor values = cache.values.narrow(0, cache.slots[row], 1).narrow(2, 0, size);
    keys.narrow(2, size - 1, 1).copy_(heads.keys.narrow(0, b, 1));
    values.narrow(2, size - 1, 1).copy_(heads.values.narrow(0, b, 1));
    const int64_t first = cache.first_seen(size);
    const Heads own{heads.queries.narrow(0, b, 1), keys.narrow(2, first, size - first),
                    values.narrow(2, first, size - first)};
    context.narrow(0, b, 1).copy_(attention(own, {}, {}, "", Visibility::all));
  }
}

}  // namespace

at::Tensor cached_attention(const Heads& heads, const CachedKeys& cache) {
  const int64_t batch = heads.queries.size(0), num_heads = heads.queries.size(1), head_dim = heads.queries.size(3);
  TERRACE_CHECK(heads.queries.size(2) == 1 && batch == static_cast<int64_t>(cache.slots.size()) &&
                    cache.slots.size() == cache.sizes.size(),
                "{} positions of {} sequences for {} slots", heads.queries.size(2), batch, cache.slots.size());
  at::Tensor context = at::empty({batch, 1, num_heads * head_dim}, heads.queries.options());
  const profile::OperationRecord record("terrace::attention", [&] {
    double keys = 0;
    for (int64_t size : cache.sizes) keys += static_cast<double>(size + 1);
    const double group_elements = keys * static_cast<double>(head_dim);
    return profile::OperationCost{
        .flops = 4 * group_elements * static_cast<double>(num_heads),
        .bytes = 2 * group_elements * static_cast<double>(cache.keys.size(1) * context.element_size())};
  });
  if (context.is_cpu() && cpu::has_decode_attention(context.scalar_type())) {
    cpu::decode_attention(heads, cache, context);
  } else {
    attend_one_by_one(heads, cache, context);
  }
  return context;
}

}  // namespace terrace::ops
