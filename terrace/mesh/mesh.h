// The ranks of a run as a grid with named axes: pure arithmetic, no communication.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/mesh/group.h"

namespace terrace::mesh {

// The distribution of the ranks over the hardware. Ranks fill pairs, and pairs fill nodes, in rank order.
struct Topology {
  int64_t ranks_per_pair = 1;  // ranks that share a package
  int64_t ranks_per_node = 1;  // ranks that share a machine

  bool operator==(const Topology&) const = default;
};

// The slowest link that a group of ranks needs.
enum class Reach { rank, pair, node, network };
std::string_view name_of(Reach reach);

Reach reach_of(const std::vector<int64_t>& ranks, const Topology& topology);

struct Axis {
  std::string name;  // "pipeline", "data", "context", "tensor"
  int64_t size = 1;

  bool operator==(const Axis&) const = default;
};

class Mesh {
 public:
  // The axes are given from the outermost to the innermost, along which ranks are consecutive. Throws UserError where
  // the product of the sizes is not `ranks`, and suggests sizes that fit.
  Mesh(int64_t ranks, std::vector<Axis> axes, const Topology& topology);

  int64_t size() const { return size_; }
  int64_t size(std::string_view axis) const;
  bool has(std::string_view axis) const;
  const std::vector<Axis>& axes() const { return axes_; }
  const Topology& topology() const { return topology_; }

  int64_t coordinate(int64_t rank, std::string_view axis) const;
  // The rank with these coordinates, which are in the order of the axes.
  int64_t rank_at(const std::vector<int64_t>& coordinates) const;
  // The ranks that differ from this one only in their coordinate on the axis, in order. The group has the axis' name.
  Group group(int64_t rank, std::string_view axis) const;
  // The ranks with this one's coordinate on the axis, in order.
  Group same_coordinate(int64_t rank, std::string_view axis, std::string name) const;

  // Two axes as one, of which the inner one varies fastest: `inner` is directly inside `outer`, or the mesh lacks it.
  // Coordinates go from 0 to the product of both sizes.
  struct Joined {
    std::string_view outer, inner;
  };
  int64_t size(Joined axes) const;
  int64_t coordinate(int64_t rank, Joined axes) const;
  Group group(int64_t rank, Joined axes, std::string name) const;
  Group same_coordinate(int64_t rank, Joined axes, std::string name) const;

 private:
  // Equally spaced ranks of one or two axes.
  struct Span {
    int64_t size = 1, stride = 1;
  };
  size_t index_of(std::string_view axis) const;
  int64_t stride(size_t axis) const;
  Span span_of(std::string_view axis) const;
  Span span_of(Joined axes) const;
  int64_t coordinate(int64_t rank, Span span) const;
  Group same_coordinate(int64_t rank, Span span, std::string name) const;

  int64_t size_;
  std::vector<Axis> axes_;
  Topology topology_;
};

// One line for each axis longer than 1 and for each further group: name, size, reach, and members of rank 0's group.
//   data    4 ranks  node     0 1 2 3
std::string overview(const Mesh& mesh, const std::vector<Group>& further);

}  // namespace terrace::mesh
