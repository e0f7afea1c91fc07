// Adds the sums of squares of all ranks, which are exact.
#include "terrace/optim/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "terrace/mesh/shards.h"
#include "terrace/optim/kernels.h"

namespace terrace::optim {
namespace {

// A shard begins with a piece.
static_assert(norm_piece == mesh::piece_elements);

// Consecutive elements of a shard, counted from the beginning of its gradient.
struct ShardRange {
  int64_t begin = 0, end = 0;
};

// The elements of the rank's own part that no other rank counts: all but those that are copies. Padding is zero.
std::vector<ShardRange> counted_ranges_of(const Shard& shard) {
  std::vector<ShardRange> ranges;
  int64_t begin = shard.own_begin;
  const auto end_at = [&](int64_t end) {
    if (begin < end) ranges.push_back({begin, end});
  };
  for (const ShardPiece& part : shard.own_pieces()) {
    int64_t counted = part.begin;  // up to here the elements of the part are counted or left out
    const auto leave_out = [&](int64_t to) {
      if (counted == to) return;
      end_at(part.at + counted - part.begin);
      begin = part.at + to - part.begin;
    };
    for (const LocalRange& range : counted_ranges(part.parameter->mark, part.begin, part.end)) {
      leave_out(range.begin);
      counted = range.end;
    }
    leave_out(part.end);
  }
  end_at(shard.own_end);
  return ranges;
}

void add_squares_of(const Shard& shard, const ShardRange& range, Squares& squares) {
  squares.add(shard.gradient.narrow(0, range.begin, range.end - range.begin),
              norm_piece - (range.begin - shard.own_begin) % norm_piece);
}

// The sum of the squares of the gradients' elements that this rank counts.
ExactSum own_sum(const std::vector<Shard>& shards) {
  Squares squares;
  for (const Shard& shard : shards) {
    for (const ShardRange& range : counted_ranges_of(shard)) add_squares_of(shard, range, squares);
  }
  return squares.total();
}

// The first parameter of this rank, in order, whose gradient is not finite.
struct BadParameter {
  int64_t shard = std::numeric_limits<int64_t>::max();
  std::string name;
};

BadParameter first_bad_parameter(const std::vector<Shard>& shards) {
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const ShardPiece& part : shards[i].own_pieces()) {
      for (const LocalRange& range : counted_ranges(part.parameter->mark, part.begin, part.end)) {
        Squares squares;
        squares.add(shards[i].gradient.narrow(0, part.at + range.begin - part.begin, range.end - range.begin));
        if (!is_finite(squares.total())) return {static_cast<int64_t>(i), part.parameter->name};
      }
    }
  }
  return {};
}

// `name` of the given member, on all members.
std::string broadcast_name(const std::string& name, int64_t member, comm::Comm& group) {
  std::array<char, 256> text = {};
  name.copy(text.data(), text.size() - 1);
  group.broadcast(text.data(), static_cast<int64_t>(text.size()), comm::Type::uint8, member, {.what = "bad parameter"})
      .wait();
  return text.data();
}

// The sums of all members, on each of them.
std::vector<ExactSum> gathered(const ExactSum& own, comm::Comm& group, const char* what) {
  std::vector<ExactSum> all(static_cast<size_t>(group.size()));
  group.all_gather(own.data(), all.data(), exact_words, comm::Type::int64, {.what = what}).wait();
  return all;
}

ExactSum sum_of(const std::vector<ExactSum>& sums) {
  ExactSum total = {};
  for (const ExactSum& sum : sums) add(sum, total);
  carry(total);
  return total;
}

// The name of the first parameter of all members, in the order of the shards, whose gradient is not finite.
std::string first_bad_name(const std::vector<Shard>& shards, const ExactSum& own, comm::Comm& everyone) {
  const BadParameter bad = is_finite(own) ? BadParameter{} : first_bad_parameter(shards);
  std::vector<int64_t> bad_shards(static_cast<size_t>(everyone.size()));
  everyone.all_gather(&bad.shard, bad_shards.data(), 1, comm::Type::int64, {.what = "bad parameter"}).wait();
  return broadcast_name(bad.name, std::ranges::min_element(bad_shards) - bad_shards.begin(), everyone);
}

}  // namespace

GradientNorm gradient_norm(const std::vector<Shard>& shards, comm::Comm& everyone, comm::Comm& model_parallel) {
  GradientNorm result;
  const ExactSum own = own_sum(shards);
  ExactSum total = sum_of(gathered(own, everyone, "gradient norm"));
  if (!is_finite(total)) result.first_bad = first_bad_name(shards, own, everyone);
  if (model_parallel.size() > 1) {
    const std::vector<ExactSum> totals = gathered(total, model_parallel, "add gradient norms");
    const auto bad = std::ranges::find_if_not(totals, is_finite);
    if (bad != totals.end()) result.first_bad = broadcast_name(result.first_bad, bad - totals.begin(), model_parallel);
    total = sum_of(totals);
  }
  result.norm = std::sqrt(value_of(total));
  return result;
}

double clip_multiplier(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

}  // namespace terrace::optim
