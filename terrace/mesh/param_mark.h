// Describes what a parameter is in the whole model, as plain data. Checkpoints, gradient reduction, clipping and export
// read only this and never the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace {

// The rows [begin, begin + size) of a whole parameter, counted in its sharded dimension.
struct RowRange {
  int64_t begin = 0;
  int64_t size = 0;
  // If several ranks along the axis hold these rows, whether this rank is the one that saves them and counts them in
  // the norm.
  bool counted = true;

  bool operator==(const RowRange&) const = default;
};

struct ParamMark {
  enum class Kind { unmarked, replicated, sharded };

  Kind kind = Kind::unmarked;
  std::vector<int64_t> global_shape = {};  // the shape of the whole parameter, padding included
  // Dimension `dim` of a sharded parameter is sharded over the mesh axis `axis`, and this rank's tensor holds the row
  // ranges one after another. On an axis of size 1 there is one row range with all rows.
  int64_t dim = 0;
  std::vector<RowRange> row_ranges = {};
  std::string axis = {};
  // The rows of a sharded parameter that must stay on one rank: there are `groups` equal groups of rows. Up to that
  // many ranks hold whole groups; more ranks divide each group among them, except its last `shared` rows, which they
  // all hold. With 0 groups the rows may be divided anywhere.
  int64_t groups = 0, shared = 0;
  // Whether this is the rank along the axis "tensor" that saves a replicated parameter and counts it in the norm.
  bool counted = true;
  // Whether each tensor rank computes only a share of a replicated parameter's gradient, as with weights that the heads
  // share. With sequence parallelism the gradients of all replicated parameters are shares.
  bool gradient_in_shares = false;
  // Whether dimension 0 counts the experts of a layer. Where ranks divide them (mesh/experts.h), the parameter becomes
  // sharded over an axis "experts", and is summed and cut over other ranks than the parameters beside it; else it is
  // replicated.
  bool of_experts = false;

  static ParamMark replicated(std::vector<int64_t> shape);
  // The mark before the parameter is divided: one row range with all rows.
  static ParamMark sharded(std::vector<int64_t> shape, int64_t dim, std::string axis);

  bool operator==(const ParamMark&) const = default;
};

// The shape of this rank's tensor.
std::vector<int64_t> local_shape(const ParamMark& mark);

// The row ranges of `member` of `ranks`. Aborts where the rows are not divisible among the ranks; the rules of the
// configuration prevent that.
std::vector<RowRange> row_ranges_of(const ParamMark& mark, int64_t member, int64_t ranks);

// Elements that are consecutive in row-major order both in a rank's tensor (from `local`) and in the whole parameter
// (from `global`).
struct MappedRange {
  int64_t local = 0, global = 0, size = 0;
  bool counted = true;

  bool operator==(const MappedRange&) const = default;
};

// The ranges that the elements [begin, end) of this rank's tensor consist of, in order.
std::vector<MappedRange> mapped_ranges(const ParamMark& mark, int64_t begin, int64_t end);

// The elements [begin, end) of a rank's tensor.
struct LocalRange {
  int64_t begin = 0, end = 0;

  bool operator==(const LocalRange&) const = default;
};

// The elements among [begin, end) of this rank's tensor that this rank counts, as the fewest ranges.
std::vector<LocalRange> counted_ranges(const ParamMark& mark, int64_t begin, int64_t end);

}  // namespace terrace
