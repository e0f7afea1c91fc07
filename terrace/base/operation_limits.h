// Says how operations divide their work: the operations themselves (terrace/ops, terrace/models) and the planner, which
// is built without torch and counts what they do, both read it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace {

// A product whose result is summed over tensor ranks is sent in pieces: enough rows for products at full speed, and few
// enough pieces that the calls cost little. A piece has a multiple of `unit` rows.
constexpr int64_t summed_piece_rows(int64_t rows, int64_t unit) {
  constexpr int64_t least_rows = 256, most_pieces = 4;
  return (std::max(least_rows, (rows + most_pieces - 1) / most_pieces) + unit - 1) / unit * unit;
}

// Bytes of logits that exist at a time. Each chunk reads and writes the gradient of the whole weight: a GPU, whose
// products are faster than its memory, needs chunks of thousands of tokens, on a CPU they had better fit its caches.
constexpr int64_t loss_chunk_bytes(bool on_gpu) { return int64_t{on_gpu ? 512 : 64} << 20; }

// The tokens of a chunk of all `tokens`, where the logits of one have `token_bytes`. There are enough of them for
// products at full speed, even if logits are many: each chunk reads the whole weight twice, and reads and writes its
// gradient.
constexpr int64_t loss_chunk_tokens(int64_t tokens, int64_t token_bytes, int64_t chunk_bytes) {
  constexpr int64_t least_tokens = 512;
  return std::min(tokens, std::max(least_tokens, chunk_bytes / std::max<int64_t>(1, token_bytes)));
}

// The logits of a token among which, beside its target's, the loss on a CPU finds the largest for its exponentials.
inline constexpr int64_t loss_reference_logits = 64;
// Columns of a matrix product that are summed together where the product also sums what it stores.
inline constexpr int64_t product_sum_columns = 64;
// The most rows of a product's first factor that our kernels for CPUs copy at a time.
inline constexpr int64_t product_copied_rows = 2016;

// Whether the flash attention of GPUs has kernels for heads of this width, of 16-bit numbers.
constexpr bool flash_takes_heads(int64_t head_dim) { return head_dim <= 256 && head_dim % 8 == 0; }

// The aggregation of a vision transformer's variables is computed for pieces of places whose temporary values take this
// many bytes.
inline constexpr int64_t aggregation_piece_bytes = int64_t{64} << 20;

}  // namespace terrace
