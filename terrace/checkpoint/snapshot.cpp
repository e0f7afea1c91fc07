// Copies all tensors into one block of memory, with all threads.
#include "terrace/checkpoint/snapshot.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

namespace terrace::checkpoint {
namespace {

// Each tensor begins at a cache line.
constexpr int64_t alignment_bytes = 64;
// Small enough to divide the work evenly among threads, large enough that the overhead of a piece is negligible.
constexpr int64_t piece_bytes = int64_t{1} << 22;

struct Piece {
  const std::byte* from;
  std::byte* to;
  int64_t bytes;
};

int64_t aligned(int64_t bytes) { return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes; }

int64_t total_bytes(const State& state) {
  int64_t bytes = 0;
  for (const Collection& collection : state.collections) {
    for (const NamedTensor& named : collection.tensors) bytes += aligned(static_cast<int64_t>(named.tensor.nbytes()));
  }
  return bytes;
}

void add_pieces(const at::Tensor& source, std::byte* to, std::vector<Piece>& pieces) {
  const auto* from = static_cast<const std::byte*>(source.const_data_ptr());
  const auto bytes = static_cast<int64_t>(source.nbytes());
  for (int64_t done = 0; done < bytes; done += piece_bytes) {
    pieces.push_back({from + done, to + done, std::min(piece_bytes, bytes - done)});
  }
}

}  // namespace

bool any_on_gpu(const State& state) {
  return std::ranges::any_of(state.collections, [](const Collection& collection) {
    return std::ranges::any_of(collection.tensors, [](const NamedTensor& named) { return named.tensor.is_cuda(); });
  });
}

State Snapshot::take(const State& state) {
  State copy = state;
  const int64_t bytes = total_bytes(state);
  if (!memory_.defined() || memory_.numel() != bytes) {
    memory_.reset();  // before the new allocation, so that both never exist at once
    // A GPU copies into pinned pages at the full rate of its link.
    memory_ = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(any_on_gpu(state)));
  }
  auto* to = static_cast<std::byte*>(memory_.mutable_data_ptr());
  std::vector<Piece> pieces;
  for (Collection& collection : copy.collections) {
    for (NamedTensor& named : collection.tensors) {
      const at::Tensor source = named.tensor.detach();
      named.tensor = at::from_blob(to, source.sizes(), source.scalar_type());
      if (source.is_cpu() && source.is_contiguous()) {
        add_pieces(source, to, pieces);
      } else {
        named.tensor.copy_(source);
      }
      to += aligned(static_cast<int64_t>(source.nbytes()));
    }
  }
  at::parallel_for(0, static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(pieces[i].to, pieces[i].from, static_cast<size_t>(pieces[i].bytes));
    }
  });
  return copy;
}

}  // namespace terrace::checkpoint
