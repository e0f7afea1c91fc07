// Gathers the sums of squares of all pieces and adds them in global order.
#include "terrace/optim/gradient_norm.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "terrace/mesh/shards.h"
#include "terrace/optim/kernels.h"

namespace terrace::optim {
namespace {

// A shard begins with a piece.
static_assert(norm_piece == mesh::piece_elements);

double sum_of_squares(const at::Tensor& values) {
  const at::Tensor sums = squares_by_piece(values).cpu();
  const double* begin = sums.const_data_ptr<double>();
  return std::accumulate(begin, begin + sums.numel(), 0.0);
}

// Calls body(piece, begin, end) for the intersection of the range, counted from own_begin, with each piece.
void for_pieces(int64_t begin, int64_t end, const std::function<void(int64_t, int64_t, int64_t)>& body) {
  while (begin < end) {
    const int64_t piece = begin / norm_piece, to = std::min(end, (piece + 1) * norm_piece);
    body(piece, begin, to);
    begin = to;
  }
}

// Corrects the sums of pieces with elements that other ranks count: such a sum is computed again from the elements that
// this rank counts.
void exclude_uncounted(const Shard& shard, double* sums) {
  std::map<int64_t, double> again;  // by piece
  const std::vector<ShardPiece> own = shard.own_pieces();
  const auto counted_of = [](const ShardPiece& part) {
    return counted_ranges(part.parameter->mark, part.begin, part.end);
  };
  for (const ShardPiece& part : own) {
    const std::vector<LocalRange> counted = counted_of(part);
    if (counted.size() == 1 && counted.front() == LocalRange{part.begin, part.end}) continue;
    const int64_t at = part.at - shard.own_begin;
    for_pieces(at, at + part.size(), [&](int64_t piece, int64_t, int64_t) { again.emplace(piece, 0.0); });
  }
  if (again.empty()) return;
  for (const ShardPiece& part : own) {
    for (const LocalRange& range : counted_of(part)) {
      const int64_t at = part.at - shard.own_begin + range.begin - part.begin;
      for_pieces(at, at + range.end - range.begin, [&](int64_t piece, int64_t begin, int64_t end) {
        const auto found = again.find(piece);
        if (found == again.end()) return;
        found->second += sum_of_squares(shard.gradient.narrow(0, shard.own_begin + begin, end - begin));
      });
    }
  }
  for (const auto& [piece, sum] : again) sums[piece] = sum;
}

int64_t pieces_of(const Shard& shard) { return (shard.own_end - shard.own_begin + norm_piece - 1) / norm_piece; }

// One after another on the CPU. A GPU is waited for once.
at::Tensor joined_on_cpu(const std::vector<at::Tensor>& sums) {
  const at::Tensor joined = at::cat(sums);
  if (!joined.is_cuda()) return joined;
  return at::empty(joined.sizes(), joined.options().device(at::kCPU).pinned_memory(true)).copy_(joined);
}

// The sums of this rank's own pieces, for all shards in order.
std::vector<double> own_sums(const std::vector<Shard>& shards) {
  if (shards.empty()) return {};
  std::vector<at::Tensor> of_shards;
  for (const Shard& shard : shards) {
    of_shards.push_back(squares_by_piece(shard.gradient.narrow(0, shard.own_begin, shard.own_end - shard.own_begin)));
  }
  const at::Tensor joined = joined_on_cpu(of_shards);
  const double* begin = joined.const_data_ptr<double>();
  std::vector<double> sums(begin, begin + joined.numel());
  double* own = sums.data();
  for (const Shard& shard : shards) {
    exclude_uncounted(shard, own);
    own += pieces_of(shard);
  }
  return sums;
}

bool is_finite(const at::Tensor& values) {
  const at::Tensor sums = squares_by_piece(values).cpu();
  const double* begin = sums.const_data_ptr<double>();
  return std::all_of(begin, begin + sums.numel(), [](double sum) { return std::isfinite(sum); });
}

// The name of the first parameter in the piece whose gradient is not finite.
std::string bad_parameter(const Shard& shard, int64_t piece) {
  const int64_t begin = shard.own_begin + piece * norm_piece, end = begin + norm_piece;
  for (const ShardPiece& part : shard.pieces) {
    const int64_t from = std::max(begin, part.at), to = std::min(end, part.at + part.size());
    if (from < to && !is_finite(shard.gradient.narrow(0, from, to - from))) return part.parameter->name;
  }
  return "";
}

// `name` of the given member, on all members.
std::string broadcast_name(const std::string& name, int64_t member, comm::Comm& group) {
  std::array<char, 256> text = {};
  name.copy(text.data(), text.size() - 1);
  group.broadcast(text.data(), static_cast<int64_t>(text.size()), comm::Type::uint8, member, {.what = "bad parameter"})
      .wait();
  return text.data();
}

// Adds the totals of all model-parallel ranks in order.
void add_totals(GradientNorm& result, double& total, comm::Comm& model_parallel) {
  if (model_parallel.size() == 1) return;
  std::vector<double> totals(static_cast<size_t>(model_parallel.size()));
  model_parallel.all_gather(&total, totals.data(), 1, comm::Type::fp64, {.what = "add gradient norms"}).wait();
  total = std::accumulate(totals.begin(), totals.end(), 0.0);
  const auto bad = std::ranges::find_if_not(totals, [](double sum) { return std::isfinite(sum); });
  if (bad != totals.end()) result.first_bad = broadcast_name(result.first_bad, bad - totals.begin(), model_parallel);
}

}  // namespace

GradientNorm gradient_norm(const std::vector<Shard>& shards, comm::Comm& everyone, comm::Comm& model_parallel) {
  const std::vector<double> own = own_sums(shards);
  std::vector<double> all(own.size() * static_cast<size_t>(everyone.size()));
  everyone
      .all_gather(own.data(), all.data(), static_cast<int64_t>(own.size()), comm::Type::fp64, {.what = "gradient norm"})
      .wait();
  GradientNorm result;
  double total = 0;
  size_t first = 0;  // the index of the shard's first piece among the pieces of one member
  for (const Shard& shard : shards) {
    const int64_t pieces = pieces_of(shard);
    for (int64_t member = 0; member < everyone.size(); ++member) {
      const double* sums = all.data() + static_cast<size_t>(member) * own.size() + first;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        total += sums[piece];
        if (std::isfinite(sums[piece]) || !result.first_bad.empty()) continue;
        const std::string own_name = everyone.member() == member ? bad_parameter(shard, piece) : "";
        result.first_bad = broadcast_name(own_name, member, everyone);
      }
    }
    first += static_cast<size_t>(pieces);
  }
  add_totals(result, total, model_parallel);
  result.norm = std::sqrt(total);
  return result;
}

double clip_multiplier(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

}  // namespace terrace::optim
