// Tables of the sides of cells.
#include "terrace/data/graphs/formats/mesh_cells.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace terrace::data {
namespace {

using Side = std::array<int, 2>;

constexpr std::array<Side, 4> pixel_sides = {{{0, 1}, {1, 3}, {3, 2}, {2, 0}}};
constexpr std::array<Side, 6> tetrahedron_sides = {{{0, 1}, {1, 2}, {2, 0}, {0, 3}, {1, 3}, {2, 3}}};
constexpr std::array<Side, 12> hexahedron_sides = {
    {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {4, 5}, {5, 6}, {6, 7}, {7, 4}, {0, 4}, {1, 5}, {2, 6}, {3, 7}}};
constexpr std::array<Side, 12> voxel_sides = {
    {{0, 1}, {1, 3}, {3, 2}, {2, 0}, {4, 5}, {5, 7}, {7, 6}, {6, 4}, {0, 4}, {1, 5}, {2, 6}, {3, 7}}};
constexpr std::array<Side, 9> prism_sides = {{{0, 1}, {1, 2}, {2, 0}, {3, 4}, {4, 5}, {5, 3}, {0, 3}, {1, 4}, {2, 5}}};
constexpr std::array<Side, 8> pyramid_sides = {{{0, 1}, {1, 2}, {2, 3}, {3, 0}, {0, 4}, {1, 4}, {2, 4}, {3, 4}}};

// Returns the sides of a shape with a fixed number of nodes.
std::span<const Side> sides_of(CellShape shape) {
  switch (shape) {
    case CellShape::pixel:
      return pixel_sides;
    case CellShape::tetrahedron:
      return tetrahedron_sides;
    case CellShape::hexahedron:
      return hexahedron_sides;
    case CellShape::voxel:
      return voxel_sides;
    case CellShape::prism:
      return prism_sides;
    case CellShape::pyramid:
      return pyramid_sides;
    default:
      return {};
  }
}

}  // namespace

int64_t nodes_of_cell(CellShape shape) {
  int most = -1;
  for (const Side& side : sides_of(shape)) most = std::max({most, side[0], side[1]});
  return most + 1;
}

void CellEdges::add_edge(int32_t a, int32_t b) {
  if (a != b) pairs_.emplace_back(std::min(a, b), std::max(a, b));
}

void CellEdges::add(CellShape shape, std::span<const int32_t> nodes) {
  for (const Side& side : sides_of(shape)) {
    add_edge(nodes[static_cast<size_t>(side[0])], nodes[static_cast<size_t>(side[1])]);
  }
  if (shape == CellShape::line || shape == CellShape::strip || shape == CellShape::polygon) {
    for (size_t i = 1; i < nodes.size(); ++i) add_edge(nodes[i - 1], nodes[i]);
  }
  if (shape == CellShape::strip) {
    for (size_t i = 2; i < nodes.size(); ++i) add_edge(nodes[i - 2], nodes[i]);
  }
  if (shape == CellShape::polygon && nodes.size() > 2) add_edge(nodes.back(), nodes.front());
}

GivenEdges CellEdges::edges() {
  std::ranges::sort(pairs_);
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  std::vector<std::pair<int32_t, int32_t>> both = pairs_;
  for (const auto& [a, b] : pairs_) both.emplace_back(b, a);
  std::ranges::sort(both);
  GivenEdges edges;
  for (const auto& [receiver, sender] : both) {
    edges.receivers.push_back(receiver);
    edges.senders.push_back(sender);
  }
  return edges;
}

}  // namespace terrace::data
