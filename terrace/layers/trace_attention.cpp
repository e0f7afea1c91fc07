// Traces attention on one rank, with the masks that it needs on a GPU.
#include "terrace/base/operation_limits.h"
#include "terrace/layers/trace_bytes.h"
#include "terrace/layers/unit_trace.h"

namespace terrace::layers {

using schedule::memory_pass;
using schedule::Operation;

Value UnitTrace::attention(const Value& joint, const AttentionLayout& layout) {
  if (options_.context_ranks == 1) return attention_to_all(joint, layout, layout.heads / ranks_);
  if (options_.context_route == config::ContextRoute::heads) return attention_by_heads(joint, layout);
  return attention_in_parts(joint, layout);
}

Value UnitTrace::attention_to_all(const Value& joint, const AttentionLayout& layout, int64_t heads) {
  const int64_t positions = layout.positions;
  const Value context = value(joint.rows, layout.heads * layout.head_dim, heads * layout.head_dim, /*cuts_rows=*/false);
  const int64_t log_sums = joint.rows * heads * wide_bytes;
  const auto read = static_cast<double>(bytes(joint)), written = static_cast<double>(bytes(context));
  Operation forward{.kind = Operation::Kind::attention,
                    .name = "attention",
                    .m = joint.rows / options_.samples,
                    .n = positions,
                    .k = layout.head_dim,
                    .count = options_.samples * heads,
                    .bytes = read + written + static_cast<double>(log_sums),
                    .causal = layout.causal,
                    .window = layout.window,
                    .fused = !layout.drops};
  Operation backward = forward;
  backward.backward = true;
  backward.bytes = 2 * read + 2 * written + static_cast<double>(log_sums);
  if (layout.drops) {
    // In forward two products write and read the scores; mask (a copy, then the mask itself), softmax and dropout read
    // and write them. In backward there are four products, and softmax reads its result as well.
    const double scores = bytes_of(joint.rows * heads, positions);
    forward.bytes = read + written + 10 * scores;
    backward.bytes = 2 * read + 2 * written + 13 * scores;
  }
  row_.operations.forward.push_back(forward);
  row_.operations.input_gradient.push_back(backward);
  // Products of queries with keys and of probabilities with values, whose two inputs both have a gradient.
  const double all = static_cast<double>(positions) * static_cast<double>(positions) *
                     (layout.window > 0 ? 2 * forward.share_in_window() : 1.0);
  const double of_pair = 4.0 * static_cast<double>(options_.samples * layout.heads * layout.head_dim) /
                         static_cast<double>(options_.context_ranks);
  const double flops = of_pair * (layout.causal ? 0.5 : 1.0) * all;
  add_flops(flops, 2 * flops, 0, 3 * of_pair * all);
  save(joint);
  save(context);
  not_with_selective_ += log_sums;
  if (options_.context_ranks == 1) mask(layout);
  return context;
}

// A row of keys for each query: for documents and for a window, where the type or the heads are not those of flash
// attention or probabilities are dropped. CPUs' kernels need none. Masks that AMD's GPUs need besides are not counted.
// With recompute it exists only while attention is computed again.
void UnitTrace::mask(const AttentionLayout& layout) {
  const bool windows = layout.window > 0 && layout.window < layout.positions;
  const bool flash = options_.element_bytes == 2 && flash_takes_heads(layout.head_dim) && !layout.drops;
  if (!options_.on_gpu || !layout.causal || flash || (!layout.by_document && !windows)) return;
  const int64_t pairs = (layout.by_document ? options_.samples : 1) * layout.positions * layout.positions;
  // The mask in the type of the scores; and one byte a pair for each of: equal documents, pairs before the query, pairs
  // in the window.
  const int64_t kept = pairs * options_.element_bytes, made_from = pairs * (windows ? 3 : 2);
  not_with_selective_ += kept;
  row_.temporary_bytes += kept + made_from;
  // Each pass over what the mask is made from reads and writes as much. Forward and backward read the mask for every
  // head; the caches of a GPU bring most of it once.
  const auto once = static_cast<double>(kept);
  row_.operations.forward.push_back(memory_pass("attention mask", 2 * static_cast<double>(made_from) + 2 * once, 4));
  row_.operations.input_gradient.push_back(memory_pass("attention mask", once, 0));
}

}  // namespace terrace::layers
