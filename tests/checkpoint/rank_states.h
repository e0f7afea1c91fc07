// States of many ranks for the tests of checkpoints: whole parameters that each rank knows, and layouts that define
// which elements a rank holds of them.
#pragma once

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "terrace/comm/threads/threads.h"
#include "tests/checkpoint/sample_state.h"

namespace terrace::checkpoint {

// One, two and three dimensions, odd sizes, single rows, a scalar, and one without elements.
inline const std::vector<std::vector<int64_t>> sample_shapes = {{13, 7}, {5},    {3, 5, 7}, {1, 31}, {1},
                                                                {},      {2, 2}, {0, 3},    {17, 3}};

inline std::string parameter_name(size_t index) { return "parameters." + std::to_string(index) + ".weight"; }

inline at::Tensor parameter_values(size_t collection, size_t index, double salt) {
  return sample_values(sample_shapes[index],
                       salt + 10.0 * static_cast<double>(collection) + static_cast<double>(index));
}

struct Cut {
  int64_t begin, end;  // of a slice's elements
};

// The range that `member` of `members` holds of a slice of `elements` that begins at `before` in the flat buffer.
using CutOf = std::function<Cut(int64_t before, int64_t elements, int64_t all, int64_t member, int64_t members)>;

// All parameters one after another in a flat buffer, which is divided into equal parts.
inline Cut flat(int64_t before, int64_t elements, int64_t all, int64_t member, int64_t members) {
  const int64_t part = (all + members - 1) / members;
  const auto inside = [&](int64_t at) { return std::clamp<int64_t>(at - before, 0, elements); };
  return {inside(part * member), inside(part * (member + 1))};
}

// Each parameter is divided into equal parts, so that the last members hold nothing of small parameters.
inline Cut each(int64_t, int64_t elements, int64_t, int64_t member, int64_t members) {
  const int64_t part = (elements + members - 1) / members;
  return {std::min(part * member, elements), std::min(part * (member + 1), elements)};
}

// The last member holds everything.
inline Cut last(int64_t, int64_t elements, int64_t, int64_t member, int64_t members) {
  return {0, member == members - 1 ? elements : 0};
}

struct Layout {
  const char* name;
  int64_t ranks;
  CutOf cut;
  // The number of tensor-parallel groups. Each holds a part of the columns of two-dimensional parameters, and its own
  // part of the others.
  int64_t tensor_parallel = 1;
};

struct SliceOfParameter {
  ParamMark mark;
  at::Tensor values;
};

// The slice of a parameter that a tensor-parallel rank holds. Parameters that are not sharded are on the first rank
// alone.
inline SliceOfParameter slice_of(const at::Tensor& whole, int64_t tensor_rank, int64_t tensor_ranks) {
  if (whole.dim() != 2 || tensor_ranks == 1) {
    return {ParamMark::replicated(whole.sizes().vec()), whole};
  }
  const int64_t begin = whole.size(1) * tensor_rank / tensor_ranks;
  const int64_t end = whole.size(1) * (tensor_rank + 1) / tensor_ranks;
  ParamMark mark = ParamMark::sharded(whole.sizes().vec(), 1, "tensor");
  mark.row_ranges = {{.begin = begin, .size = end - begin}};
  return {std::move(mark), whole.narrow(1, begin, end - begin)};
}

// A rank's tensors with the layout: its ranges, filled with their values, or with -9 everywhere to read into.
inline State state_of(const Layout& layout, int64_t rank, int64_t step, double salt, bool filled = true) {
  State state;
  state.step = step;
  state.trainer = {{"salt", salt}};
  state.config = sample_config();
  const int64_t tensor_rank = rank % layout.tensor_parallel, member = rank / layout.tensor_parallel;
  const int64_t members = layout.ranks / layout.tensor_parallel;
  for (size_t g = 0; g < 3; ++g) {
    std::vector<SliceOfParameter> slices;
    int64_t all = 0, before = 0;
    for (size_t i = 0; i < sample_shapes.size(); ++i) {
      slices.push_back(slice_of(parameter_values(g, i, salt), tensor_rank, layout.tensor_parallel));
      all += slices.back().values.numel();
    }
    Collection collection{std::vector<std::string>{"weights", "optimizer_m", "optimizer_v"}[g], {}};
    for (size_t i = 0; i < slices.size(); ++i) {
      const auto& [mark, values] = slices[i];
      auto [begin, end] = layout.cut(before, values.numel(), all, member, members);
      before += values.numel();
      if (mark.kind == ParamMark::Kind::replicated && tensor_rank > 0 && filled) end = begin;
      const at::Tensor own = values.reshape({-1}).narrow(0, begin, end - begin);
      collection.tensors.push_back({parameter_name(i), filled ? own.clone() : at::full({end - begin}, -9.0F), mark,
                                    ElementRange{begin, end, values.sizes().vec()}});
    }
    state.collections.push_back(std::move(collection));
  }
  return state;
}

inline mesh::Group everyone(int64_t ranks) { return mesh::all_ranks("save", ranks); }

// Runs the function on each of so many ranks, with a Comm of all of them.
inline void on_ranks(int64_t ranks, const std::function<void(comm::Comm&)>& action) {
  comm::run_threads(ranks, {.timeout_seconds = 60}, [&](comm::World& world) {
    const auto comm = world.connect(everyone(ranks));
    action(*comm);
  });
}

inline std::filesystem::path save_at(const Layout& layout, const std::filesystem::path& folder, int64_t step,
                                     double salt, const Retention& retention = {}) {
  on_ranks(layout.ranks,
           [&](comm::Comm& ranks) { save(folder, state_of(layout, ranks.member(), step, salt), retention, ranks); });
  return list(folder).back();
}

// Expects that every rank of the layout reads the bits of its elements.
inline void expect_reads_at(const Layout& layout, const std::filesystem::path& checkpoint, double salt) {
  for (int64_t rank = 0; rank < layout.ranks; ++rank) {
    const Reader reader(checkpoint, rank, layout.ranks);
    const State found = state_of(layout, rank, 0, salt, false), expected = state_of(layout, rank, 0, salt);
    for (size_t g = 0; g < found.collections.size(); ++g) {
      reader.read(found.collections[g]);
      for (size_t t = 0; t < found.collections[g].tensors.size(); ++t) {
        const NamedTensor &to = found.collections[g].tensors[t], &from = expected.collections[g].tensors[t];
        if (layout.tensor_parallel > 1 && from.tensor.numel() == 0) continue;  // saved by another rank, and read here
        EXPECT_TRUE(same_bits(to.tensor, from.tensor)) << layout.name << ", rank " << rank << ", " << to.name;
      }
    }
  }
}

}  // namespace terrace::checkpoint
