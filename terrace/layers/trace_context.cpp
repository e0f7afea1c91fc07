// Traces attention of positions that are cut over ranks, with the transfers of each route (docs/context.md).
#include <algorithm>

#include "terrace/layers/trace_bytes.h"
#include "terrace/layers/unit_trace.h"

namespace terrace::layers {

using schedule::ContextTransfer;
using schedule::memory_pass;
using Move = ContextTransfer::Kind;

namespace {

// The distances at which some rank sees keys of another.
int64_t farthest_keys(const AttentionLayout& layout, int64_t ranks) {
  if (!layout.causal || layout.window == 0 || layout.window >= layout.positions) return ranks - 1;
  const int64_t own = layout.positions / ranks;
  return std::min(ranks - 1, (layout.window - 1 + own - 1) / own);
}

}  // namespace

// Queries of this rank and keys of one rank after the other (ops/attention/context_attention.cpp).
Value UnitTrace::attention_in_parts(const Value& joint, const AttentionLayout& layout) {
  const int64_t heads = layout.heads / ranks_, groups = std::max<int64_t>(1, layout.key_heads / ranks_);
  const Value context = attention_to_all(joint, layout, heads);
  const int64_t queries = joint.rows * heads * layout.head_dim, keys = joint.rows * 2 * groups * layout.head_dim;
  const int64_t ranks = options_.context_ranks, distance = farthest_keys(layout, ranks);
  const bool ring = options_.context_route == config::ContextRoute::ring;
  // Each range of keys reads and writes the sums of contexts and of the queries' gradients.
  const auto sums = static_cast<double>((distance + 1) * 2 * queries * wide_bytes);
  row_.operations.forward.push_back(memory_pass("merge contexts", sums, 0));
  row_.operations.input_gradient.push_back(memory_pass("merge gradients", sums, 0));
  if (ring) {
    ring_transfers(keys, distance);
  } else {
    gather_transfers(keys);
  }
  // In backward the sums for queries and keys, those that are sent and those that arrive, and keys that are used and
  // those that arrive; by a gather the keys of all ranks and their sums.
  const int64_t kept_keys = keys * (options_.element_bytes + wide_bytes);
  row_.temporary_bytes += queries * wide_bytes + (ring ? 3 * kept_keys : (ranks + 1) * kept_keys);
  return context;
}

void UnitTrace::ring_transfers(int64_t keys, int64_t distance) {
  if (distance == 0) return;
  const auto shifts = static_cast<double>(distance), share = shifts / (shifts + 1);
  const auto narrow = static_cast<double>(keys * options_.element_bytes), wide = static_cast<double>(keys * wide_bytes);
  const ContextTransfer of_keys{
      .kind = Move::shift, .bytes = shifts * narrow, .count = distance, .beside_attention = share};
  row_.operations.forward_transfers.push_back(of_keys);
  row_.operations.backward_transfers.push_back(of_keys);
  // The last sums arrive when all attention is computed.
  if (distance > 1) {
    row_.operations.backward_transfers.push_back(
        {.kind = Move::shift, .bytes = (shifts - 1) * wide, .count = distance - 1, .beside_attention = share});
  }
  row_.operations.backward_transfers.push_back({.kind = Move::shift, .bytes = wide});
}

void UnitTrace::gather_transfers(int64_t keys) {
  const auto ranks = static_cast<double>(options_.context_ranks);
  const auto narrow = static_cast<double>(keys * options_.element_bytes), wide = static_cast<double>(keys * wide_bytes);
  const ContextTransfer of_keys{.kind = Move::all_gather, .bytes = (ranks - 1) * narrow, .beside_attention = 1 / ranks};
  row_.operations.forward_transfers.push_back(of_keys);
  row_.operations.backward_transfers.push_back(of_keys);
  row_.operations.backward_transfers.push_back({.kind = Move::reduce_scatter, .bytes = (ranks - 1) * wide});
}

// All positions of some heads, which are those of ops/attention/context_heads.cpp.
Value UnitTrace::attention_by_heads(const Value& joint, const AttentionLayout& layout) {
  const int64_t ranks = options_.context_ranks, all_heads = layout.heads / ranks_, heads = all_heads / ranks;
  const int64_t per_group = all_heads / std::max<int64_t>(1, layout.key_heads / ranks_);
  const int64_t together = heads % per_group == 0 ? per_group : per_group % heads == 0 ? heads : 1;
  const int64_t columns = (heads + 2 * heads / together) * layout.head_dim;
  const Value whole = value(joint.rows * ranks, joint.columns, columns, /*cuts_rows=*/false);
  const Value context = attention_to_all(whole, layout, heads);
  for (const Value& moved : {whole, context}) {
    const auto all = static_cast<double>(bytes(moved));
    const ContextTransfer exchange{.kind = Move::exchange,
                                   .bytes = all * static_cast<double>(ranks - 1) / static_cast<double>(ranks)};
    row_.operations.forward_transfers.push_back(exchange);
    row_.operations.backward_transfers.push_back(exchange);
    // Blocks for each rank, and what came from each rank in the order of positions.
    for (auto* list : {&row_.operations.forward, &row_.operations.input_gradient}) {
      list->push_back(memory_pass("blocks of context ranks", 4 * all, 2));
    }
  }
  row_.temporary_bytes += 3 * bytes(whole);
  return value(joint.rows, layout.heads * layout.head_dim, all_heads * layout.head_dim, /*cuts_rows=*/false);
}

}  // namespace terrace::layers
