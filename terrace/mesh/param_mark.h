// What a parameter is in the whole model, as plain data: checkpoints, gradient reduction, clipping and export read only
// this, never the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terrace {

// Rows [begin, begin + size) of the cut dimension of a whole parameter.
struct Slab {
  int64_t begin = 0;
  int64_t size = 0;
  // Of several ranks along the axis that hold these rows, this is the one that saves them and counts them in the norm.
  bool counted = true;

  bool operator==(const Slab&) const = default;
};

struct ParamMark {
  enum class Kind { unmarked, replicated, sharded };

  Kind kind = Kind::unmarked;
  std::vector<int64_t> global_shape = {};  // of the whole parameter, padding included
  // sharded: `dim` is cut over the mesh axis `axis`, and this rank's tensor holds the slabs one after another. On an
  // axis of size 1 one slab is everything.
  int64_t dim = 0;
  std::vector<Slab> slabs = {};
  std::string axis = {};
  // sharded: how rows may be cut. `groups` equal groups of rows stay together where there are at least as many as
  // ranks; ranks beyond that cut each group further, but for the `shared` rows at its end, which all of them hold. 0: a
  // cut may be between any two rows.
  int64_t groups = 0, shared = 0;
  // replicated: of the ranks along the axis "tensor" this one saves it and counts it in the norm.
  bool counted = true;

  static ParamMark replicated(std::vector<int64_t> shape);
  // Not yet cut.
  static ParamMark sharded(std::vector<int64_t> shape, int64_t dim, std::string axis);

  bool operator==(const ParamMark&) const = default;
};

// Of this rank's part.
std::vector<int64_t> local_shape(const ParamMark& mark);

// The slabs of `member` of `ranks`. Aborts where the rows do not fit the ranks: rules of the configuration see to that.
std::vector<Slab> slabs_of(const ParamMark& mark, int64_t member, int64_t ranks);

// Elements that lie one after another both in a rank's part and in the whole parameter, in row-major order.
struct ElementRun {
  int64_t local = 0, global = 0, size = 0;
  bool counted = true;

  bool operator==(const ElementRun&) const = default;
};

// The elements [begin, end) of this rank's part, in order.
std::vector<ElementRun> runs_of(const ParamMark& mark, int64_t begin, int64_t end);

// Those of the elements [begin, end) of this rank's part that it counts, as the fewest ranges of it.
struct LocalRange {
  int64_t begin = 0, end = 0;

  bool operator==(const LocalRange&) const = default;
};
std::vector<LocalRange> counted_ranges(const ParamMark& mark, int64_t begin, int64_t end);

}  // namespace terrace
