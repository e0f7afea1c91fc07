// Computes coordinates by division, and groups as slices of the grid.
#include "terrace/mesh/mesh.h"

#include <algorithm>
#include <numeric>

#include "terrace/base/error.h"

namespace terrace::mesh {
namespace {

constexpr size_t shown_ranks = 8;

int64_t product(const std::vector<Axis>& axes) {
  return std::accumulate(axes.begin(), axes.end(), int64_t{1},
                         [](int64_t n, const Axis& axis) { return n * axis.size; });
}

// The end of a message: numbers of ranks or sizes that fit.
std::string suggestion(int64_t ranks, const std::vector<Axis>& axes) {
  std::string text = fmt::format("start {} ranks", product(axes));
  for (const Axis& axis : axes) {
    const int64_t others = product(axes) / axis.size;
    if (axis.name == "data" && ranks % others == 0) text += fmt::format(", or use data = {}", ranks / others);
  }
  return text;
}

std::string format_group(const Group& group, const Topology& topology) {
  std::string ranks;
  for (size_t i = 0; i < std::min(shown_ranks, group.ranks.size()); ++i) ranks += fmt::format(" {}", group.ranks[i]);
  if (group.ranks.size() > shown_ranks) ranks += " ...";
  return fmt::format("{:<18} {:>5} rank{}  {:<8}{}\n", group.name, group.ranks.size(),
                     group.ranks.size() == 1 ? " " : "s", name_of(reach_of(group.ranks, topology)), ranks);
}

}  // namespace

std::string_view name_of(Reach reach) {
  switch (reach) {
    case Reach::rank:
      return "itself";
    case Reach::pair:
      return "pair";
    case Reach::node:
      return "node";
    case Reach::network:
      return "network";
  }
  return "unknown";
}

Reach reach_of(const std::vector<int64_t>& ranks, const Topology& topology) {
  const auto together = [&](int64_t size) {
    return std::ranges::all_of(ranks, [&](int64_t rank) { return rank / size == ranks.front() / size; });
  };
  if (ranks.empty() || together(1)) return Reach::rank;
  // A pair lies in one node, even where the node's size is not a multiple of the pair's.
  if (!together(topology.ranks_per_node)) return Reach::network;
  const auto pair_of = [&](int64_t rank) { return rank % topology.ranks_per_node / topology.ranks_per_pair; };
  const bool pair = std::ranges::all_of(ranks, [&](int64_t rank) { return pair_of(rank) == pair_of(ranks.front()); });
  return pair ? Reach::pair : Reach::node;
}

Mesh::Mesh(int64_t ranks, std::vector<Axis> axes, const Topology& topology)
    : size_(ranks), axes_(std::move(axes)), topology_(topology) {
  TERRACE_CHECK(topology.ranks_per_pair >= 1 && topology.ranks_per_node >= 1, "{} ranks a pair, {} a node",
                topology.ranks_per_pair, topology.ranks_per_node);
  for (const Axis& axis : axes_) TERRACE_CHECK(axis.size >= 1, "axis {} has size {}", axis.name, axis.size);
  if (product(axes_) == ranks) return;
  std::string sizes;
  for (const Axis& axis : axes_) sizes += fmt::format("{}{} = {}", sizes.empty() ? "" : " x ", axis.name, axis.size);
  throw UserError::of("{} gives {} ranks, and there are {}; {}", sizes, product(axes_), ranks,
                      suggestion(ranks, axes_));
}

size_t Mesh::index_of(std::string_view name) const {
  const auto found = std::ranges::find(axes_, name, &Axis::name);
  TERRACE_CHECK(found != axes_.end(), "the mesh has no axis {}", name);
  return static_cast<size_t>(found - axes_.begin());
}

int64_t Mesh::stride(size_t axis) const {
  int64_t stride = 1;
  for (size_t inner = axis + 1; inner < axes_.size(); ++inner) stride *= axes_[inner].size;
  return stride;
}

bool Mesh::has(std::string_view axis) const { return std::ranges::find(axes_, axis, &Axis::name) != axes_.end(); }

Mesh::Span Mesh::span_of(std::string_view axis) const {
  const size_t index = index_of(axis);
  return {.size = axes_[index].size, .stride = stride(index)};
}

Mesh::Span Mesh::span_of(Joined axes) const {
  const Span outer = span_of(axes.outer);
  if (!has(axes.inner)) return outer;
  const Span inner = span_of(axes.inner);
  TERRACE_CHECK(outer.stride == inner.size * inner.stride, "axis {} is not directly inside {}", axes.inner, axes.outer);
  return {.size = outer.size * inner.size, .stride = inner.stride};
}

int64_t Mesh::size(std::string_view axis) const { return span_of(axis).size; }

int64_t Mesh::size(Joined axes) const { return span_of(axes).size; }

int64_t Mesh::coordinate(int64_t rank, Span span) const {
  TERRACE_CHECK(rank >= 0 && rank < size_, "rank {} of {}", rank, size_);
  return rank / span.stride % span.size;
}

int64_t Mesh::coordinate(int64_t rank, std::string_view axis) const { return coordinate(rank, span_of(axis)); }

int64_t Mesh::coordinate(int64_t rank, Joined axes) const { return coordinate(rank, span_of(axes)); }

int64_t Mesh::rank_at(const std::vector<int64_t>& coordinates) const {
  TERRACE_CHECK(coordinates.size() == axes_.size(), "{} coordinates for {} axes", coordinates.size(), axes_.size());
  int64_t rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    TERRACE_CHECK(coordinates[i] >= 0 && coordinates[i] < axes_[i].size, "{} = {} of {}", axes_[i].name, coordinates[i],
                  axes_[i].size);
    rank = rank * axes_[i].size + coordinates[i];
  }
  return rank;
}

Group Mesh::group(int64_t rank, std::string_view axis) const {
  const Span span = span_of(axis);
  return spaced_ranks(std::string(axis), rank - coordinate(rank, span) * span.stride, span.size, span.stride);
}

Group Mesh::group(int64_t rank, Joined axes, std::string name) const {
  const Span span = span_of(axes);
  return spaced_ranks(std::move(name), rank - coordinate(rank, span) * span.stride, span.size, span.stride);
}

Group Mesh::same_coordinate(int64_t rank, Span span, std::string name) const {
  std::vector<int64_t> ranks;
  for (int64_t first = coordinate(rank, span) * span.stride; first < size_; first += span.stride * span.size) {
    for (int64_t i = 0; i < span.stride; ++i) ranks.push_back(first + i);
  }
  return {std::move(name), std::move(ranks)};
}

Group Mesh::same_coordinate(int64_t rank, std::string_view axis, std::string name) const {
  return same_coordinate(rank, span_of(axis), std::move(name));
}

Group Mesh::same_coordinate(int64_t rank, Joined axes, std::string name) const {
  return same_coordinate(rank, span_of(axes), std::move(name));
}

Group spaced_ranks(std::string name, int64_t first, int64_t number, int64_t step) {
  std::vector<int64_t> ranks(static_cast<size_t>(number));
  for (int64_t i = 0; i < number; ++i) ranks[static_cast<size_t>(i)] = first + i * step;
  return {std::move(name), std::move(ranks)};
}

Group all_ranks(std::string name, int64_t ranks) { return spaced_ranks(std::move(name), 0, ranks, 1); }

std::string overview(const Mesh& mesh, const std::vector<Group>& further) {
  std::string text;
  for (const Axis& axis : mesh.axes()) {
    if (axis.size > 1) text += format_group(mesh.group(0, axis.name), mesh.topology());
  }
  for (const Group& group : further) text += format_group(group, mesh.topology());
  return text;
}

}  // namespace terrace::mesh
