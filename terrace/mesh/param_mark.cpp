// Computes row ranges of parameters and the ranges of elements that they consist of.
#include "terrace/mesh/param_mark.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"

namespace terrace {
namespace {

int64_t product(std::vector<int64_t>::const_iterator begin, std::vector<int64_t>::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

}  // namespace

ParamMark ParamMark::replicated(std::vector<int64_t> shape) {
  return {.kind = Kind::replicated, .global_shape = std::move(shape)};
}

ParamMark ParamMark::sharded(std::vector<int64_t> shape, int64_t dim, std::string axis) {
  const int64_t rows = shape.at(dim);
  return {.kind = Kind::sharded,
          .global_shape = std::move(shape),
          .dim = dim,
          .row_ranges = {{.begin = 0, .size = rows}},
          .axis = std::move(axis)};
}

std::vector<int64_t> local_shape(const ParamMark& mark) {
  std::vector<int64_t> shape = mark.global_shape;
  if (mark.kind != ParamMark::Kind::sharded) return shape;
  shape.at(mark.dim) = 0;
  for (const RowRange& rows : mark.row_ranges) shape.at(mark.dim) += rows.size;
  return shape;
}

std::vector<RowRange> row_ranges_of(const ParamMark& mark, int64_t member, int64_t ranks) {
  const int64_t rows = mark.global_shape.at(mark.dim);
  const int64_t groups = std::max<int64_t>(mark.groups, 1), group = rows / groups;
  if (mark.groups == 0 || groups % ranks == 0) {
    TERRACE_CHECK(rows % ranks == 0, "{} rows on {} ranks", rows, ranks);
    return {{.begin = member * (rows / ranks), .size = rows / ranks}};
  }
  const int64_t sharing = ranks / groups, own = group - mark.shared;
  TERRACE_CHECK(ranks % groups == 0 && own % sharing == 0, "{} groups of {} rows on {} ranks", groups, own, ranks);
  const int64_t begin = member / sharing * group, place = member % sharing;
  std::vector<RowRange> row_ranges = {{.begin = begin + place * (own / sharing), .size = own / sharing}};
  if (mark.shared > 0) row_ranges.push_back({.begin = begin + own, .size = mark.shared, .counted = place == 0});
  return row_ranges;
}

std::vector<MappedRange> mapped_ranges(const ParamMark& mark, int64_t begin, int64_t end) {
  if (begin >= end) return {};
  if (mark.kind != ParamMark::Kind::sharded) return {{begin, begin, end - begin, mark.counted}};
  const std::vector<int64_t> shape = local_shape(mark);
  const auto dim = shape.begin() + mark.dim;
  const int64_t inner = product(dim + 1, shape.end()), block = *dim * inner;
  const int64_t whole_block = mark.global_shape.at(mark.dim) * inner;
  std::vector<MappedRange> ranges;
  for (int64_t outer = begin / block; outer * block < end; ++outer) {
    int64_t at = outer * block;
    for (const RowRange& rows : mark.row_ranges) {
      const int64_t size = rows.size * inner, from = std::max(begin, at), to = std::min(end, at + size);
      if (from < to)
        ranges.push_back({from, outer * whole_block + rows.begin * inner + from - at, to - from, rows.counted});
      at += size;
    }
  }
  return ranges;
}

std::vector<LocalRange> counted_ranges(const ParamMark& mark, int64_t begin, int64_t end) {
  // A row range can consist of one range of elements for each row, so the two common cases are handled first.
  const auto is_counted = [&](const RowRange& rows) { return rows.counted; };
  const bool sharded = mark.kind == ParamMark::Kind::sharded;
  const bool any = sharded ? std::ranges::any_of(mark.row_ranges, is_counted) : mark.counted;
  const bool all = sharded ? std::ranges::all_of(mark.row_ranges, is_counted) : mark.counted;
  if (begin >= end || !any) return {};
  if (all) return {{begin, end}};
  std::vector<LocalRange> ranges;
  for (const MappedRange& range : mapped_ranges(mark, begin, end)) {
    if (!range.counted) continue;
    if (!ranges.empty() && ranges.back().end == range.local) {
      ranges.back().end += range.size;
    } else {
      ranges.push_back({range.local, range.local + range.size});
    }
  }
  return ranges;
}

}  // namespace terrace
