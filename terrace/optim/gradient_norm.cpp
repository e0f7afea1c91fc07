// Sums of squares of pieces, gathered and added in global order.
#include "terrace/optim/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "terrace/optim/kernels.h"

namespace terrace::optim {
namespace {

// The pieces that this rank answers for, all shards one after another.
std::vector<double> own_sums(const std::vector<Shard>& shards) {
  std::vector<double> sums;
  for (const Shard& shard : shards) {
    const at::Tensor pieces =
        squares_by_piece(shard.gradient.narrow(0, shard.own_begin, shard.own_end - shard.own_begin));
    const double* values = pieces.const_data_ptr<double>();
    sums.insert(sums.end(), values, values + pieces.numel());
  }
  return sums;
}

int64_t pieces_of(const Shard& shard) { return (shard.own_end - shard.own_begin + norm_piece - 1) / norm_piece; }

bool is_finite(const at::Tensor& values) {
  const at::Tensor sums = squares_by_piece(values);
  const double* begin = sums.const_data_ptr<double>();
  return std::all_of(begin, begin + sums.numel(), [](double sum) { return std::isfinite(sum); });
}

// The first parameter in the piece whose gradient is not finite.
std::string bad_parameter(const Shard& shard, int64_t piece) {
  const int64_t begin = shard.own_begin + piece * norm_piece, end = begin + norm_piece;
  for (const ShardPiece& part : shard.pieces) {
    const int64_t from = std::max(begin, part.at), to = std::min(end, part.at + part.size());
    if (from < to && !is_finite(shard.gradient.narrow(0, from, to - from))) return part.parameter->name;
  }
  return "";
}

// The member that answers for the piece tells the others.
std::string told_name(const Shard& shard, int64_t piece, int64_t member, comm::Comm& everyone) {
  std::array<char, 256> text = {};
  if (everyone.member() == member) bad_parameter(shard, piece).copy(text.data(), text.size() - 1);
  everyone
      .broadcast(text.data(), static_cast<int64_t>(text.size()), comm::Type::uint8, member, {.what = "bad parameter"})
      .wait();
  return text.data();
}

}  // namespace

GradientNorm gradient_norm(const std::vector<Shard>& shards, comm::Comm& everyone) {
  const std::vector<double> own = own_sums(shards);
  std::vector<double> all(own.size() * static_cast<size_t>(everyone.size()));
  everyone
      .all_gather(own.data(), all.data(), static_cast<int64_t>(own.size()), comm::Type::fp64, {.what = "gradient norm"})
      .wait();
  GradientNorm result;
  double total = 0;
  size_t first = 0;  // of the shard's pieces among those of one member
  for (const Shard& shard : shards) {
    const int64_t pieces = pieces_of(shard);
    for (int64_t member = 0; member < everyone.size(); ++member) {
      const double* sums = all.data() + static_cast<size_t>(member) * own.size() + first;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        total += sums[piece];
        if (std::isfinite(sums[piece]) || !result.first_bad.empty()) continue;
        result.first_bad = told_name(shard, piece, member, everyone);
      }
    }
    first += static_cast<size_t>(pieces);
  }
  result.norm = std::sqrt(total);
  return result;
}

double clip_multiplier(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

}  // namespace terrace::optim
